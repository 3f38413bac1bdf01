package mx

import (
	"context"
	"errors"
	"fmt"
)

// Check asks the homeserver for its versions and, with a token, for the token's owner, which it
// returns. Without a token it returns "", since a login would create another device. The error is
// ErrToken if the homeserver refuses the token, or another one if it does not answer.
func Check(ctx context.Context, homeserver string, opts *Options) (bot string, err error) {
	b, err := New(homeserver, nil, opts)
	if err != nil {
		return "", err
	}
	if _, err := b.api.Versions(ctx); err != nil {
		return "", fmt.Errorf("asking the homeserver for its versions: %w", err)
	}
	if b.api.AccessToken = b.opts.Token; b.opts.Token == "" {
		return "", nil
	}
	who, err := b.api.Whoami(ctx)
	switch {
	case err != nil && isRefusedToken(err):
		return "", errors.Join(ErrToken, err)
	case err != nil:
		return "", fmt.Errorf("asking the homeserver for the bot: %w", err)
	}
	return who.UserID.String(), nil
}
