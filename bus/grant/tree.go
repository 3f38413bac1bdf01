package grant

import "fmt"

// WalkIssued visits the credentials in a list that the credential called issuer has issued. Each
// is followed by the credentials that it has issued itself, one level deeper. The credentials
// that the operator made have the issuer "".
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

// Issued returns the names of the credentials in a list that the credential called name has
// issued, directly or through others.
func Issued(list []Credential, name string) (names []string) {
	WalkIssued(list, name, func(c *Credential, _ int) { names = append(names, c.Name) })
	return names
}

// checkIssuedCount returns nil if a credential may still be issued, or ErrFull. Everything
// issued below the same credential of the operator counts, so issuing further issuers gains
// nothing. The depth is bounded because the bus charges each message to every issuer above.
func checkIssuedCount(list []Credential, child *Credential) error {
	issuers := make(map[string]string, len(list))
	for i := range list {
		issuers[list[i].Name] = list[i].Issuer
	}
	root, depth := child.Issuer, 1
	for ; issuers[root] != ""; depth++ {
		root = issuers[root]
	}
	if depth > maxDepth {
		return fmt.Errorf("a chain of issuers may have at most %d credentials: %w", maxDepth, ErrFull)
	}
	count, size := 1, child.size()
	WalkIssued(list, root, func(c *Credential, _ int) { count, size = count+1, size+c.size() })
	if count > maxIssued || size > maxIssuedSize {
		return fmt.Errorf("%d credentials of %d bytes, but at most %d of %d bytes may be below %q: %w",
			count, size, maxIssued, maxIssuedSize, root, ErrFull)
	}
	return nil
}

// size returns about how many bytes the patterns and names of a credential take in the file.
func (c *Credential) size() (n int) {
	for _, list := range [][]string{{c.Name, c.Issuer}, c.Identities, c.Subscribe, c.Publish, c.Issue, c.Names} {
		for _, s := range list {
			n += len(s) + len(`"", `)
		}
	}
	return n
}

// withoutOrphans returns the credentials of a list whose issuers are all in the list. So removing
// a credential from the file by hand also removes everything that it has issued.
func withoutOrphans(list []Credential) []Credential {
	kept := make([]Credential, 0, len(list))
	WalkIssued(list, "", func(c *Credential, _ int) { kept = append(kept, *c) })
	return kept
}
