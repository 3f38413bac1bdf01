package main

import "testing"

func TestOnlyFullOriginsAreAllowed(t *testing.T) {
	for _, o := range []string{"https://ops.example.com", "http://127.0.0.1:8080", "http://[::1]:80"} {
		if err := checkOrigins([]string{o}); err != nil {
			t.Errorf("%q is refused: %v", o, err)
		}
	}
	for _, o := range []string{"", "*", "ops.example.com", "ops.example.com:443", "https://", "https://ops.example.com/", "https://a/b", "https://u@a"} {
		if checkOrigins([]string{o}) == nil {
			t.Errorf("%q is not refused", o)
		}
	}
}
