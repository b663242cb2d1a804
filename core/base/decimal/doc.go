// Package decimal writes whole numbers for people, in messages, tables and pages: 60,000.
//
// It imports nothing else of this module. Start with decimal.go.
package decimal
