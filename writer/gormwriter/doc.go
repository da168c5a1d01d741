// Package gormwriter passes GORM's transactions to a writer.
//
//	err = db.Transaction(func(db *gorm.DB) error {
//		...
//		tx, err := gormwriter.Tx(db)
//		if err != nil {
//			return err
//		}
//		return events.Append(ctx, tx, event)
//	})
//
// There are no callbacks on models: GORM calls none for UpdateColumn, raw SQL and SkipHooks, and an update of many rows has no
// model, so events would be missing without an error.
package gormwriter
