package chorus

// CheckSignature is how a post to a hook is checked.
var CheckSignature = checkSignature
