package tools

import (
	"encoding/json"
	"maps"
	"reflect"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"hubbub/peers/attention"
	"hubbub/protocol/collab"
)

// Types of arguments that have a schema of their own.
type (
	ownerName    string
	nextMoveName string
	partyName    string
	wakeNow      bool
	pageSize     int
	fileNumber   int
	byteOffset   int
	milliseconds int64
	visibility   string
	choices      []string
)

var argumentSchemas = sync.OnceValue(func() map[reflect.Type]*jsonschema.Schema {
	return map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[ownerName]():    described("string", "name of the agent or person who is responsible"),
		reflect.TypeFor[nextMoveName](): described("string", "name of the agent or person who has the next move"),
		reflect.TypeFor[partyName]():    described("string", "name of the agent or person (default you)"),
		reflect.TypeFor[wakeNow]():      described("boolean", "whether the one who then has the next move is woken now"),
		reflect.TypeFor[pageSize]():     {Type: "integer", Minimum: new(1.0), Maximum: new(float64(maxListed))},
		reflect.TypeFor[fileNumber]():   {Type: "integer", Minimum: new(1.0)},
		reflect.TypeFor[byteOffset]():   {Type: "integer", Minimum: new(0.0)},
		reflect.TypeFor[milliseconds](): {Type: "integer", Minimum: new(1000.0)},
		reflect.TypeFor[choices](): {Type: "array", MinItems: new(minChoices), MaxItems: new(maxChoices),
			Items: &jsonschema.Schema{Type: "string", MaxLength: new(maxChoice)}},
		reflect.TypeFor[json.RawMessage](): {Types: []string{"string", "integer"}}, // since

		reflect.TypeFor[visibility]():             enum(visibilities...),
		reflect.TypeFor[attention.Directedness](): enum(attention.Directednesses...),
		reflect.TypeFor[attention.Policy](): enum(attention.PolicyMustRespond, attention.PolicyMayRespond,
			attention.PolicyAckOnly, attention.PolicyMustNotRespond),
		reflect.TypeFor[attention.Blocks]():  enum(attention.AllBlocks...),
		reflect.TypeFor[attention.Signal]():  enum(signals()...),
		reflect.TypeFor[collab.WorkState]():  {Type: "string", Enum: collab.EnumOf(reflect.TypeFor[collab.WorkState]())},
		reflect.TypeFor[collab.Acceptance](): {Type: "string", Enum: collab.EnumOf(reflect.TypeFor[collab.Acceptance]())},

		reflect.TypeFor[eventRef](): {Type: "object",
			Properties: map[string]*jsonschema.Schema{"eventId": {Type: "string"}}},
		reflect.TypeFor[replyRef](): {Type: "object",
			Properties: map[string]*jsonschema.Schema{"inReplyTo": described("string", "eventId of the event")}},
	}
})

func signals() (list []attention.Signal) {
	for _, row := range attention.Signals {
		list = append(list, row.Signal)
	}
	return list
}

func described(kind, description string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: kind, Description: description}
}

func enum[T ~string](values ...T) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "string"}
	for _, v := range values {
		s.Enum = append(s.Enum, v)
	}
	return s
}

// schemaOf returns a function for the JSON Schema of the arguments A of a tool, which it makes
// once. Fields with omitempty are optional, and the tag jsonschema describes a field. The fields
// of the embedded types in hidden are accepted but not shown to models.
func schemaOf[A any](hidden ...reflect.Type) func() json.RawMessage {
	return sync.OnceValue(func() json.RawMessage {
		schemas := maps.Clone(argumentSchemas())
		for _, t := range hidden {
			schemas[t] = &jsonschema.Schema{Type: "object"}
		}
		s, err := jsonschema.For[A](&jsonschema.ForOptions{TypeSchemas: schemas})
		if err != nil {
			panic(err) // A is not an object, whatever the input
		}
		allowMore(s)
		raw, err := json.Marshal(s)
		if err != nil {
			panic(err)
		}
		return raw
	})
}

// allowMore removes the keywords that forbid further members or mention null: absent arguments are
// left out.
func allowMore(s *jsonschema.Schema) {
	s.AdditionalProperties = nil
	if len(s.Types) > 1 && s.Types[0] == "null" {
		s.Type, s.Types = s.Types[1], nil
	}
	for _, p := range s.Properties {
		allowMore(p)
	}
}
