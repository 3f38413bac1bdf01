// Package system is agent:system, the spawner.
package system
