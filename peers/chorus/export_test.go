package chorus

// CheckSignature is how a post to a hook is checked.
var CheckSignature = checkSignature

// NewSecrets makes one secret of each kind.
func NewSecrets() []string {
	return []string{newSecret(inboxPrefix), newSecret(callbackPrefix), newSecret(toolPrefix), newHookSecret()}
}
