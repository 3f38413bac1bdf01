// Package bridgetest tests that a bridge keeps the promises of every bridge. The tests of each bridge
// run it with a driver.
//
//	bridgetest.Run(t, &bridgetest.Driver{...})
//	bridgetest.Kill(t, driver, "stored", "sending")
package bridgetest
