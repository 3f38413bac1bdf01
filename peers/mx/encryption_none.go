//go:build !goolm

package mx

import "context"

// CanEncrypt reports whether this program was built with encryption.
const CanEncrypt = false

func newCipher(context.Context, *account) (cipher, error) { return nil, nil }
