// Package gormwriter lets package writer work in GORM's transactions:
//
//	err := writer.Run(ctx, gormwriter.DB(db, writer.Postgres), events, func(ctx context.Context, tx *gorm.DB, u *writer.Unit) error {
//		u.Add(event)
//		return tx.Create(&order).Error
//	})
//
// In a transaction of your own, [Tx] is what Append takes.
//
// There are no callbacks on models: GORM calls none for UpdateColumn, raw SQL and SkipHooks, and an update of many rows has no
// model, so events would be missing without an error.
package gormwriter
