// Package doctor has the command doctor, which finds out why a system does not work.
package doctor
