// Package records describes the records and events of the collaboration broker in words.
package records
