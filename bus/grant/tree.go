package grant

import "fmt"

// WalkIssued visits the credentials that one of a list has issued, each followed by those that
// it has issued itself, at one more depth. Those that nobody issued, but the operator
// made, are below the name "".
func WalkIssued(list []Credential, issuer string, visit func(c *Credential, depth int)) {
	issued := map[string][]*Credential{}
	for i := range list {
		issued[list[i].Issuer] = append(issued[list[i].Issuer], &list[i])
	}
	var below func(name string, depth int)
	below = func(name string, depth int) {
		for _, c := range issued[name] {
			visit(c, depth)
			below(c.Name, depth+1)
		}
	}
	below(issuer, 0)
}

// Issued returns the names of what one credential of a list has issued, and of what
// those have.
func Issued(list []Credential, name string) (names []string) {
	WalkIssued(list, name, func(c *Credential, _ int) { names = append(names, c.Name) })
	return names
}

// roomFor returns nil if a credential may still be issued, or ErrFull. All that was issued
// below the same credential of the operator counts: who issues issuers gains nothing. The
// bus charges each message to every issuer above it, so they may not be many.
func roomFor(list []Credential, child *Credential) error {
	issuers := make(map[string]string, len(list))
	for i := range list {
		issuers[list[i].Name] = list[i].Issuer
	}
	root, depth := child.Issuer, 1
	for ; issuers[root] != ""; depth++ {
		root = issuers[root]
	}
	if depth > maxDepth {
		return fmt.Errorf("at most %d credentials may be issued one by the other: %w", maxDepth, ErrFull)
	}
	count, bytes := 1, child.size()
	WalkIssued(list, root, func(c *Credential, _ int) { count, bytes = count+1, bytes+c.size() })
	if count > maxIssued || bytes > maxIssuedBytes {
		return fmt.Errorf("%d credentials of %d bytes, and at most %d of %d bytes may be below %q: %w",
			count, bytes, maxIssued, maxIssuedBytes, root, ErrFull)
	}
	return nil
}

// size returns about how many bytes a credential's patterns and names take in the file.
func (c *Credential) size() (n int) {
	for _, list := range [][]string{{c.Name, c.Issuer}, c.Identities, c.Subscribe, c.Publish, c.Issue, c.Names} {
		for _, s := range list {
			n += len(s) + len(`"", `)
		}
	}
	return n
}

// rooted returns the credentials of a list whose issuer is there, and whose issuer's is:
// who takes one out of the file by hand takes out what it issued, too.
func rooted(list []Credential) []Credential {
	kept := make([]Credential, 0, len(list))
	WalkIssued(list, "", func(c *Credential, _ int) { kept = append(kept, *c) })
	return kept
}
