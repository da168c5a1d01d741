module github.com/cdc-relay/cdc-relay/writer/gormwriter

go 1.25.0

require (
	github.com/cdc-relay/cdc-relay/writer v0.1.0
	gorm.io/gorm v1.31.2
)

require (
	github.com/google/uuid v1.6.0 // indirect
	github.com/jinzhu/inflection v1.0.0 // indirect
	github.com/jinzhu/now v1.1.5 // indirect
	golang.org/x/text v0.20.0 // indirect
)
