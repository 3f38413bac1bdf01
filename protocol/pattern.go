package protocol

// A Pattern is what one subscribes with: '*' matches any run of characters,
// none and ':' included, '?' exactly one, and everything else itself.
type Pattern string
