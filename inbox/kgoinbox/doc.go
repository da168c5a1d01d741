// Package kgoinbox is a consumer for package inbox on franz-go.
package kgoinbox
