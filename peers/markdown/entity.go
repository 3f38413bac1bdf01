package markdown

// An Entity is the formatting of a part of a text, in the form of Telegram's Bot API.
type Entity struct {
	Type     EntityType `json:"type"`
	Offset   int        `json:"offset"` // in UTF-16 code units, as Length
	Length   int        `json:"length"`
	URL      string     `json:"url,omitempty"`      // of a TextLink
	Language string     `json:"language,omitempty"` // of a Pre
}

// An EntityType is the kind of an entity.
type EntityType string

// The kinds of entities.
const (
	Bold          EntityType = "bold"
	Italic        EntityType = "italic"
	Strikethrough EntityType = "strikethrough"
	Code          EntityType = "code"
	Pre           EntityType = "pre"
	TextLink      EntityType = "text_link"
	Blockquote    EntityType = "blockquote"
)
