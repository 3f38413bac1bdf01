package chorus

// CheckSignature checks a post to a hook.
var CheckSignature = checkSignature

// NewSecrets makes one secret of each kind.
func NewSecrets() []string {
	return []string{newSecret(inboxPrefix), newSecret(callbackPrefix), newSecret(toolPrefix), newHookSecret()}
}
