// Package gateway has the commands that configure the Chorus gateway: chorus and hook.
package gateway
