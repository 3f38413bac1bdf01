package attention

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// hiddenTags enclose text that models write for themselves or for their host: thoughts, tool
// calls, and their results. Some models put a name and a colon before each tag.
var hiddenTags = []string{
	"think", "thinking", "thought", "thoughts", "reasoning", "reflection", "scratchpad", "scratch_pad",
	"antthinking",
	"inner_thoughts", "inner_monologue", "internal_monologue", "internal_thoughts", "chain_of_thought",
	"tool_call", "tool_calls", "tool_response",
	"tool_result", "tool_use", "toolcall",
	"function_call", "function_calls", "function_results", "invoke",
}

// tagPrefix matches what some models put before the name of a hidden tag.
const tagPrefix = `(?:[a-z]+[:_]|｜DSML｜)?`

// anyTag matches the name of a hidden tag.
var anyTag = tagPrefix + `(?:` + strings.Join(hiddenTags, "|") + `)`

// Marks of the chat templates of models. A turn begins with the name of a role, and ends.
const (
	roleName = `(assistant|model|chatbot|bot|ai|user|human|prompter|system|developer|tool|ipython|observation|function|` +
		`environment|functions\.[\w.]+)`
	turnEnd = `<[|｜](?:im_end|eot_id|eot|eom_id|eom|end|eos|eod|eop|endoftext|end[_▁]of[_▁](?:text|turn|sentence)|endofturn|` +
		`return|call|end_of_turn_token|end_response|turn_end|message_sep|separator|stop|endof(?:response|userprompt|system)|` +
		`(?:assistant|user|system|tool|role)_end)[|｜]>|<end_of_(?:turn|utterance|sentence)>|<eo[ahm]>|<turn\|>|` +
		`<eos>|<eos_token>|<seed:eos>|<_end>|<im_end>|\[\|endofturn\|\]|\[e~\[|\[UNUSED_TOKEN_145\]`
	anyMark = `<[|｜][a-z0-9_▁:/.-]{1,40}[|｜]>|<｜[a-z0-9_▁ ]{1,40}｜>|</?s>|<(?:start|end)_of_turn>|<(?:beginning|end)_of_sentence>|\[UNUSED_TOKEN_\d{1,3}\]|` +
		`<\|turn>|<turn\|>|<(?:unused|reserved_|extra_id_|special_)\d{1,4}>|<(?:bos|eos|pad|sop|eop)>|<(?:bos|eos|pad)_token>|<seed:[be]os>|\[gmask\](?:sop\b)?|\[\|(?:assistant|ai|user|human|system|endofturn)\|\]|` +
		`<_(?:start|end|user|bot|system|observation)>|<im_(?:start|end)>|` +
		`<</?sys>>|\]~[!b]\[|\]~b\]|\[e~\[|\[/?(?-i:INST|AVAILABLE_TOOLS|TOOL_RESULTS|TOOL_CALLS|SYSTEM_PROMPT|THINK)\]`
)

// finalChannel matches the beginning of an answer of gpt-oss, perhaps with its format.
const finalChannel = `<\|channel\|>final[^<\n]*(?:<\|constrain\|>[^<\n]*)?<\|message\|>`

// turnStart matches the beginning of a turn, with its role in one of the groups.
const turnStart = `(?:<\|?im_start\|?>|\[UNUSED_TOKEN_146\])\s*` + roleName + `\b(?:<\|im_sep\|>)?|` +
	`<\|(?:start_header_id|header_start|start_of_role|role_start)\|>\s*` + roleName +
	`?[^<\n]*<\|(?:end_header_id|header_end|end_of_role|role_end)\|>|` +
	`<\|begin\|>` + roleName + `\b(?:<\|content\|>)?|<\|(userprompt)\|>|` +
	`<\|from\|>` + roleName + `\s*<\|recipient\|>\s*all\s*<\|content\|>|` +
	`<beginning_of_sentence>(ai|user|system|tool)\b[^<\n]*|` +
	`<(?:start_of_turn>|\|turn>)` + roleName + `?\b|` +
	`<\|im_` + roleName + `\|>[^<\n]{0,40}<\|im_middle\|>|` +
	`<\|start_of_turn_token\|><\|` + roleName + `_token\|>(?:<\|start_response\|>)?|` +
	`<[|｜](?:hy_)?` + roleName + `(?:_start|_begin|_response)?[|｜]>:?|\[\|` + roleName + `\|\]:?|\]~b\](ai|user|system|tool)\b|` +
	`<(?:extra_id_1|special_11|seed:bos|s)>` + roleName + `[ \t]*\n|` +
	`<_(user|bot|system|observation)>|<role>((?-i:SYSTEM|HUMAN|USER|ASSISTANT|OBSERVATION|TOOL))</role>|<\|start\|>` + roleName + `?\b|\[((?-i:/?INST))\]`

var (
	strayClose = begins(`</` + tagPrefix + `(?:think|thinking|thought|reasoning|scratch_?pad)>|\[/(?-i:THINK)\]|◁/think▷`)
	turnStarts = begins(`(?:` + turnStart + `)[ \t]*\n{0,2}`)
	turnOver   = ends(`(?:` + turnEnd + `|` + turnStart + `)`)
	markBegins = begins(anyMark)
)

// kinds lists the hidden parts of a text, and the parts that protect others. The first kind that
// begins at a place applies, so a tag inside code stays and code inside a thought is removed.
var kinds []kind

func init() { // since measures of kinds refer to the table
	kinds = []kind{
		{first: "`", opens: begins("`{3,}"), measure: (*scanner).fence},
		{line: true, opens: begins("[ \t]{0,3}~{3,}"), measure: (*scanner).fence},
		{first: "`", opens: begins("`([^`\n]+)`"), measure: (*scanner).codeSpan},
		{first: "<[]", opens: begins(`</?` + anyTag + `>|` + anyMark), measure: (*scanner).mention},

		{first: "<", opens: begins(`<` + anyTag + `\s*/>`), does: hide},
		{first: "<", opens: begins(`<` + tagPrefix + `(` + strings.Join(hiddenTags, "|") + `)(?:\s+[a-z][\w:-]*=|\s*>)`),
			measure: tagged},
		{first: "<", cut: true, opens: begins(`<(?:function=|` + anyTag + `\b)[^>\n]*\z|</?` + tagPrefix +
			beginnings(hiddenTags...) + `\z`),
			does: hide}, // cut in a tag
		{first: "<[◁", opens: strayClose, does: hideBefore},
		{first: "<", opens: begins(`<(?:tool|tool_name|function|function_name)>\s*([\w.:/-]+)\s*</(?:tool|function)(?:_name)?>`),
			measure: (*scanner).pair, call: true},
		{first: "<", opens: begins(`</(?:[a-z]+:)?(?:tool|function)_(?:calls?|uses?|codes?|names?|args|arguments|` +
			`inputs?|outputs?|results?|responses?|parameters|sep|begin|end)>`), does: hide}, // an end alone
		{first: "<", closed: true, opens: begins(`<function=[^>\n]*>`), closes: ends(`</function>`), does: hide},
		{first: "<", opens: begins(`<([a-z_][\w.:-]*)((?:\s[^<>]*)?)>`), measure: (*scanner).element, call: true},
		{first: "[", opens: begins(`\[(?-i:TOOL_CALLS)\].*\z`), does: hide},
		{first: "<", opens: begins(`<\|(?:python_tag|tool_calls?)\|>.*\z`), does: hide},
		{first: "<", opens: begins(`<\|(?:channel|tool_call|tool_response|tool)>`), // Gemma
			closes: ends(`<(?:channel|tool_call|tool_response|tool)\|>`), does: hide},
		{first: "<", opens: begins(`<unused94>thought\b`), closes: ends(`<unused95>`), does: hide},
		{line: true, opens: begins(`assistant<\|channel\|>`), measure: func(*scanner, int, []int) (int, effect) {
			return len("assistant"), hide // its mark <|start|> was taken out
		}},
		{first: "<", opens: begins(finalChannel), does: hide}, // gpt-oss
		{first: "<", opens: begins(`<\|channel\|>`), closes: ends(finalChannel), does: hide},
		{first: "<", opens: begins(`<[|｜]tool[▁_]calls[▁_](?:section_)?begin[|｜]>`), // DeepSeek, Kimi
			closes: ends(`<[|｜]tool[▁_]calls[▁_](?:section_)?end[|｜]>`), does: hide},
		{first: "<", opens: begins(`<[|｜]tool[▁_]call[▁_]begin[|｜]>`), closes: ends(`<[|｜]tool[▁_]call[▁_]end[|｜]>`),
			does: hide},
		{first: "<", opens: begins(`<\|start_(?:thinking|action|tool_result)\|>`), // Command
			closes: ends(`<\|end_(?:thinking|action|tool_result)\|>`), does: hide},
		{first: "<", opens: begins(`<\|(?:tool_call|tool_list|tool_response|action|thinking|think)_(?:start|begin)\|>`),
			closes: ends(`<\|(?:tool_call|tool_list|tool_response|action|thinking|think)_end\|>`), does: hide},
		{first: "<", opens: begins(`<\|(?:begin_of_thought|think|thinking|thought|reasoning)\|>`),
			closes: ends(`<\|(?:end_of_thought|/(?:think|thinking|thought|reasoning))\|>|` +
				`<\|end\|>\s*<\|begin\|>assistant<\|content\|>`), does: hide},
		{first: "<", opens: begins(`<\|(?:inner|tools)_prefix\|>`), closes: ends(`<\|(?:inner|tools)_suffix\|>`),
			does: hide},
		{first: "<", opens: begins(`<<SYS>>`), closes: ends(`<</SYS>>`), does: hide},
		{first: "[", opens: begins(`\[(?-i:AVAILABLE_TOOLS|TOOL_RESULTS|SYSTEM_PROMPT)\]`),
			closes: ends(`\[/(?:AVAILABLE_TOOLS|TOOL_RESULTS|SYSTEM_PROMPT)\]`), does: hide},
		{first: "[", opens: begins(`\[(?-i:THINK)\]`), closes: ends(`\[/(?-i:THINK)\]`), does: hide},
		{first: "◁", opens: begins(`◁think▷`), closes: ends(`◁/think▷`), does: hide},

		{first: "<[]", opens: turnStarts, measure: turn},
		{first: "<[", opens: begins(turnEnd), does: endTurn},
		{first: "<[", opens: begins(`\[unused10\]\s*(?:\z|\[unused9\])|<用户>[^<]*(?-i:<AI>)`), // openPangu, MiniCPM
			measure: endAfterWord},
		{line: true, opens: begins(`assistant<\|role_sep\|>\s*|function call<\|role_sep\|>.*\z`), does: endTurn}, // GigaChat
		{first: "<", opens: begins(`</?s>`), measure: sentenceMark},
		{first: "<[]", opens: begins(`<\|im_start\|>\s*` + beginnings("assistant", "user", "system") + `\z`),
			does: hide},
		{first: "<[]", opens: markBegins, does: hide},

		{first: "cC", opens: begins(`C2A (?:EVENT|KNOCK)[ \t]*\n`), measure: (*scanner).copyOfPrompt},
		{first: "cC", line: true, opens: begins(`C2A (?:EVENT|KNOCK)[ \t]*\n` + cutCopy), does: hide},
		{first: "cC", opens: begins(`C2A (?:EVENT|KNOCK)[ \t]*\n` + headerLine + cutCopy), does: hide},
		{line: true, opens: begins(`[ \t]*(?:` + `C2A (?:E|K|` + beginnings("EVENT", "KNOCK") + `)?` +
			`|</?[a-z][a-z_:=]*|</|<<[a-z0-9]*|<[|｜])\z`),
			does: hide}, // cut in its first word
		{first: "<[◁", opens: begins(`(?:<｜|<[|｜][a-z][a-z0-9_▁ ]*[|｜]?|<` +
			beginnings("start_of_turn>", "end_of_turn>") + `|\[/?(?-i:` +
			// no other text ends like that
			beginnings("THINK]", "TOOL_CALLS]", "INST]", "AVAILABLE_TOOLS]") + `)|◁[a-z/]*)\z`), does: hide},
		{line: true, opens: begins(`(?:<<[a-z0-9]{16,}|[a-z0-9]{16,}>>)[ \t]*(?:\n|\z)|[a-z0-9]{16,}>\z`), does: hide},
		{line: true, opens: begins(headerLine), measure: (*scanner).header},

		{line: true, opens: begins(`[ \t>*]*(thought|action|action input|observation|final answer)[ \t]*:[ \t*]*`),
			measure: (*scanner).label, call: true},
		{line: true, opens: begins(`[ \t]*[\[@]?(?:to=|(?:call(?:ing)?|invoke|us(?:e|ing)|run(?:ning)?|tool(?: call)?|function):?` +
			`[ \t]+(?:tool:?[ \t]+)?)?["'\x60]?([a-z_][\w./-]*)["'\x60]?\]?(?::\d+)?(?:[ \t]+with(?:[ \t]+(?:` + argumentNames +
			`))?)?[ \t]*:?\s*\{`), measure: (*scanner).namedObject, call: true},
		{first: ">", opens: begins(`>>>([a-z_][\w./-]*)\s*\{`), measure: (*scanner).namedObject, call: true}, // Functionary
		{line: true, opens: begins(`[ \t-]*(?:tool|tool_name|function|name|action):[ \t]*["']?([\w.:/-]+)["']?[ \t]*\n[ \t]*` +
			`(?:` + argumentNames + `):`), measure: (*scanner).named, call: true},
		{first: "{[", opens: begins(`(?:\[\s*){0,8}\{\s*(?:["']|(?:name|tool|function|action)\b)`),
			measure: (*scanner).object, call: true},
		{first: "[", opens: begins(`\[[ \t]*` + callBegins), measure: (*scanner).callList, call: true, program: true},
		{first: "a", within: maxCallBegins, opens: begins(callBegins), measure: (*scanner).call, call: true, program: true},
	}
}

// headerNames name the lines of the header of a prompt.
var headerNames = []string{
	"event_id", "now", "sent", "merged_event_ids", "conversation", "conversation_title", "thread", "stream", "author",
	"author_id",
	"directedness", "response_policy",
	"priority", "reason", "reply_target", "fence",
}

// headerLine matches a line of the header of a prompt.
var headerLine = `(?:` + strings.Join(headerNames, "|") + `): [^\n]*(?:\n|\z)`

var headerLines = begins(`(?:` + headerLine + `)+`)

// headerOnly matches a header line that occurs in few other texts, and headerAuthor one that occurs in none.
var (
	headerOnly   = compiled(`(?im)^(?:event_id|response_policy|directedness): `)
	headerAuthor = compiled(`(?im)^author: (?:human|agent|system):`)
)

// cutCopy matches the rest of a copy of the prompt that was cut.
var cutCopy = `(?:[a-z_]+: [^\n]*(?:\n|\z))*` +
	`(?:\n[A-Z ]+\n[^\n]*<<[a-z0-9]{16,}\n.*\z|(?:[a-z]|` + beginnings(headerNames...) + `):?\z|\n(?:` +
	beginnings("CONTEXT", "MESSAGE") + `|MESSAGE\n<{0,2}[a-z0-9]*)\z)?`

// beginnings matches words and their prefixes of at least two characters.
func beginnings(words ...string) string {
	var all []string
	for _, word := range words {
		tail := ""
		for i := len(word) - 1; i > 1; i-- {
			tail = "(?:" + regexp.QuoteMeta(word[i:i+1]) + tail + ")?"
		}
		all = append(all, word[:2]+tail)
	}
	return "(?:" + strings.Join(all, "|") + ")"
}

var closeTags = func() map[string]pattern {
	all := map[string]pattern{}
	for _, tag := range hiddenTags {
		all[tag] = ends(`</` + tagPrefix + tag + `>`)
	}
	return all
}()

// tagged hides what a tag encloses. Line breaks may stand before the attributes of the tag, but not in them.
func tagged(s *scanner, at int, opened []int) (int, effect) {
	rest, length := s.text[at:], opened[1]
	tag := strings.ToLower(rest[opened[2]:opened[3]])
	if rest[length-1] == '=' {
		end := s.tagEnd(at + length)
		if end == len(s.text) || s.text[end] != '>' {
			return 0, keep
		}
		length = end + 1 - at
	}
	if closed := closeTags[tag]().FindStringIndex(rest[length:]); closed != nil {
		return length + closed[1], hide
	}
	return len(rest), hide
}

// header hides lines of the prompt's header: the first of a text, or several, if two of them, or the kind of an
// author, occur in no other text.
func (s *scanner) header(at int, _ []int) (int, effect) {
	if at < s.prompt.noHeader {
		return 0, keep
	}
	run := headerLines().FindString(s.text[at:])
	only := len(headerOnly().FindAllStringIndex(run, 2))
	if s.prompt.noHeader = at + len(run); only == 0 || at > 0 && (only == 1 && !headerAuthor().MatchString(run) ||
		strings.Count(strings.TrimSpace(run), "\n") == 0) {
		return 0, keep
	}
	return len(run), hide
}

var (
	copyLines = begins(`(?:[a-z_]+: [^\n]*\n)*`)
	copyPart  = begins(`\n[A-Z]+\n`)
)

// copyOfPrompt unwraps a copy of the prompt up to its last fence. No copy begins within the header of something else.
func (s *scanner) copyOfPrompt(at int, opened []int) (int, effect) {
	if at < s.prompt.noCopy {
		return 0, keep
	}
	header := at + opened[1]
	s.prompt.noCopy = header + len(copyLines().FindString(s.text[header:]))
	part := copyPart().FindString(s.text[s.prompt.noCopy:])
	if part == "" {
		return 0, keep
	}
	if s.prompt.lastFence == 0 {
		s.prompt.lastFence = -1
		if all := lastFence().FindAllStringIndex(s.text, -1); all != nil {
			s.prompt.lastFence = all[len(all)-1][1]
		}
	}
	if s.prompt.noCopy+len(part) >= s.prompt.lastFence {
		return 0, keep
	}
	return s.prompt.lastFence - at, unwrap
}

var lastFence = compiled(`(?im)^[a-z0-9]{16,}>>[ \t]*$\n?`)

// turn hides the mark that begins a turn, and the turn itself if it is not the assistant's. Directly after a name,
// <_role> is a type parameter.
func turn(s *scanner, at int, opened []int) (int, effect) {
	rest, role := s.text[at:], ""
	if at > 0 && isAlnum(s.text[at-1]) && strings.HasPrefix(rest, "<_") { // List<_User>
		return opened[1], keep
	}
	for i := 2; i < len(opened); i += 2 {
		if opened[i] >= 0 {
			role = strings.ToLower(rest[opened[i]:opened[i+1]])
		}
	}
	length := opened[1]
	if slices.Contains(assistantRoles, role) {
		return length, endTurn
	}
	over := turnOver().FindStringIndex(rest[length:])
	if over == nil {
		return len(rest), endTurn
	}
	length += over[0]
	if next := turnStarts().FindStringSubmatchIndex(rest[length:]); next != nil {
		n, _ := turn(s, at+length, next)
		length += n
	}
	return length, endTurn
}

// endAfterWord ends a turn at a mark that touches the text before it. Elsewhere, such a mark is text.
func endAfterWord(s *scanner, at int, opened []int) (int, effect) {
	if at > 0 && strings.IndexByte(" \t", s.text[at-1]) >= 0 {
		return 0, keep
	}
	return opened[1], endTurn
}

// assistantRoles are the roles of turns with answers. Some marks name none.
var assistantRoles = []string{"", "assistant", "model", "chatbot", "bot", "ai", "/inst"}

var (
	strikes = ends(`</s>[ \t]*[^\s<\[]`)
	eosRest = begins(`</s>(?:\s|\z|<|\[)`)
)

// sentenceMark hides <s> and </s> where they begin and end a text, but not as tags of HTML.
func sentenceMark(s *scanner, at int, opened []int) (int, effect) {
	rest := s.text[at:]
	if !s.sentence.marked {
		s.sentence.marked, s.sentence.strikes = true, strikes().MatchString(s.text)
		s.sentence.firstWord = len(s.text) - len(strings.TrimLeftFunc(s.text, unicode.IsSpace))
		s.sentence.secondMark = len(s.text)
		from := s.sentence.firstWord + len("<s>")
		if !strings.HasPrefix(s.text[s.sentence.firstWord:], "<s>") {
			from = s.sentence.firstWord
		}
		if n := strings.Index(s.text[from:], "<s>"); n >= 0 {
			s.sentence.secondMark = from + n
		}
	}
	switch {
	case s.sentence.strikes:
		return opened[1], keep
	case rest[1] != '/' && at <= s.sentence.firstWord:
		return opened[1], hide
	case rest[1] == '/' && at < s.sentence.secondMark && eosRest().MatchString(rest):
		return opened[1], endTurn
	}
	return opened[1], keep
}

var (
	quotes     = map[string]string{"“": "”", "„": "“”", "‘": "’", "‚": "‘", "«": "»", "‹": "›", "「": "」", "『": "』"}
	quoteOpens = compiled(`([“„‘‚«‹「『])[ \x{a0}]?\z`)
	wordBefore = compiled(`[\pL\pN,] \z`)
	straight   = compiled(`(?:\A|[^\w])(["'])\z`)
	afterQuote = begins(`["'](?:[\s.,;:!?…)\]}、。，！？/-]|\z)`)
	articles   = compiled(`(?i)\b(?:the|an?|this|that|no|any|each|every|opening|closing) \z`)
	isCalled   = begins(` (?:tag|token|block|element|marker|mark)s?\b`)
	listed     = begins(` (?:and|or) </?` + anyTag + `> (?:tag|token|block|element|marker)s?\b`)
	// a sentence that begins with a mark says something about it
	speaksOf = begins(` (?:[—–=] |(?-i:is|are|was|were|and|or|tokens?|tags?|marks?|markers?|blocks?|means?|wraps?|begins?|` +
		`starts?|ends?|encloses?|closes?|opens?|separates?|should|must|can|stands|tells?|ist|sind|und|oder|markiert|es|son|y|` +
		`est|sont|et|é|são|e|это|и|или|це|та)[ ,])`)
	prose = begins(`[,;)][ \n]|[.:!?)](?:\s|\z)| (?:[\pL(]|<[|｜/]?[a-z_|｜]+> )`)

	afterColon  = compiled(`[:=→]\** \z`)
	lineEnd     = begins(`[ \t]*(?:\n|\z)`)
	inProse     = compiled(midSentence)
	punctuation = begins(`[,;.:!?)](?:\s|\z)`)
	lineStart   = compiled(startOfLine)
	leadsTo     = compiled(`(?i)(?:\A|[^\pL\pM\pN_])(?:` + leadingWords + `) \z`)

	// ellipsis and joined match what may be between two tags of a pair, and the second one.
	ellipsis = begins(` ?(?:\.\.\.|…|[/,–—-]) ?(?:</` + anyTag + `>|` + anyMark + `)`)
	joined   = begins(` ?(?:和|与|與|及|或|到|至|と|や|から|または|와|과|및|부터|\(?(?:\.|\[\\s\\S\])[*+]\??\)?) ?(?:</` + anyTag + `>|` + anyMark + `)`)
)

const (
	midSentence = `[\pL\pN,;)>|\]] \z|\(\z`
	startOfLine = `\A[ \t*>#+•-]*(?:\d{1,3}[.)][ \t]+)?\**\z`
	listMark    = `[-*+•]|\d{1,3}[.)]`

	// leadingWords are words before a tag that a sentence mentions. A thought begins after none of them.
	leadingWords = `in|inside|into|within|with|without|between|before|after|from|by|of|as|like|via|called|named|uses?|using|` +
		`writes?|emits?|outputs?|prints?|adds?|inserts?|puts?|opens?|closes?|strips?|removes?|deletes?|skips?|hides?|` +
		`has|does|about|around|and|or|tag|element|marker|` +
		`schreibt|nutzt|enthält|écrit|utilise|escribe|escreve|usa|scrive|пишет|выводит|использует|` +
		`im|zwischen|mit|ohne|vor|nach|von|aus|wie|und|oder|dans|entre|avec|sans|par|avant|après|comme|et|ou|balise|` +
		`en|con|sin|por|como|etiqueta|em|com|sem|tra|fra|di|tussen|met|zonder|voor|van|ile|ve|veya|` +
		`между|из|от|до|после|перед|как|тега?|или|між|після|як|або|dalam|antara|dengan|dan|atau|między|przed|lub|` +
		`بين|في|مع|بعد|قبل|در|با|بین|از`

	// conjunctions are words between two tags that a sentence mentions.
	conjunctions = `and|or|to|und|oder|bis|et|ou|à|y|e|o|u|a|i|en|of|tot|och|og|eller|ve|veya|ile|и|или|до|і|й|та|або|lub|` +
		`dan|atau|و|یا|और|plus|vs\.?|with|by|into|instead of|&`
)

// A mentionPlace is a place of a mark that a sentence mentions: the text before the mark and the text after it.
type mentionPlace struct{ before, after pattern }

// mentionPlaces are places where no thought, call or turn begins or ends.
var mentionPlaces = []mentionPlace{
	{compiled(`\S \z|\(\z`), punctuation}, // in <think>, then
	{compiled(`(?:\A| )\z`), begins(`, `)},
	{compiled(midSentence + `|` + startOfLine), begins(` (?:` + conjunctions + `) </?[a-z]`)}, // <think> and </think>
	{leadsTo, begins(` [\pL\pN(]|\z`)},                                                        // with <think> before
	{compiled(`\A[ \t>]*(?:` + listMark + `)[ \t]+\**\z`), // - <think>: it begins
		begins(`\**[:,]\**\s| [=→–—-]|\n[ \t]*(?:` + listMark + `) |\z`)},
	{compiled(`\| \z`), begins(` \|`)}, // in a table
	{compiled(`[\[{(]\z`), begins(`[\]})]`)},
	{compiled(`(?:\A|[\s(])\*{1,3}\z`), begins(`\*{1,3}(?:[\s,.;:!?)]|\z)`)}, // **<think>**
	{compiled(`\\\z`), begins(``)},                                           // \<think>
	{compiled(`[\pL\pN,] \z|[\p{Han}\p{Hiragana}\p{Katakana}]\z`), // <think>-Tag
		begins(`-\pL| ?(?:标签|標籤|标记|標記|タグ|トークン|태그|토큰)`)},
	{compiled(`[以用在由从從到和与與及或の]\z`), begins(`[\p{Han}\p{Katakana}\p{Hangul}]`)}, // 以<think>开头
	{compiled(`.\z`), begins(`[，。、；：！？）]`)},
}

// templatePlaces are such places for marks of templates only: a thought may begin in the middle of these sentences.
var templatePlaces = []mentionPlace{
	{afterColon, begins(`[=,]|[ \t]*\n[^\n<]{1,40}[:=→]\** <`)}, // pad: <pad>, and eos: <eos> in the next line
	{compiled(`, \z`), begins(`=`)},
	{leadsTo, begins(`[ \t]*\n`)},
	{compiled(`[是为為]\z`), begins(`[\p{Han}\p{Katakana}\p{Hangul}]`)}, // 标记是<|im_end|>而不是
	{compiled(`[はがをにでともの]\z`), begins(`(?:です|でし|である|だ。|が|を|に|の|と|から|まで)`)}, // 終わりは<|im_end|>です
	{compiled(`\p{Hangul} ?\z`), // 끝은 <|im_end|>입니다
		begins(`(?:입니다|이다|이에요|예요|은|는|이|가|을|를|로|으로|와|과|의|에서|부터|까지)(?:[\s.,!?]|\z)`)},
}

// thoughtMark matches the marks of templates that begin a thought.
var thoughtMark = begins(`\[(?-i:THINK)\]|<\|[a-z_]*(?:think|thought|reasoning)`)

// maxBefore exceeds the number of bytes before a mark that decide whether its sentence mentions
// it.
const maxBefore = 32

// mention keeps a mark that its sentence mentions: a mark in quotation marks, one that is called
// a tag or token, a mark of a template between words, and one in a place of mentionPlaces.
func (s *scanner) mention(at int, opened []int) (int, effect) {
	length := s.mentionLength(at, opened[1])
	s.mentioned = s.mentioned || length > 0
	return length, keep
}

// mentionLength returns the length of a mark, with what belongs to it, if its sentence mentions it, or 0. A
// straight quotation mark counts only if it is separate from other words: `"yes"</think>"Yes"` quotes no tag.
func (s *scanner) mentionLength(at, length int) int {
	after := s.text[at+length:]
	line := s.text[max(0, at-maxBefore):at]
	line = line[strings.LastIndexByte(line, '\n')+1:]
	if q := quoteOpens().FindStringSubmatch(line); q != nil {
		for _, closing := range quotes[q[1]] {
			if strings.HasPrefix(strings.TrimLeft(after, " \u00a0"), string(closing)) {
				return length
			}
		}
	}
	if q := straight().FindStringSubmatch(line); q != nil && strings.HasPrefix(after, q[1]) &&
		afterQuote().MatchString(after) {
		return length
	}
	if lineStart().MatchString(line) && speaksOf().MatchString(after) {
		return length
	}
	if articles().MatchString(line) {
		if called := isCalled().FindStringIndex(after); called != nil {
			return length + called[1]
		}
	}
	if wordBefore().MatchString(line) && s.text[at+1] != '/' {
		if pair := listed().FindStringIndex(after); pair != nil {
			return length + pair[1]
		}
	}
	if inProse().MatchString(line) && prose().MatchString(after) &&
		(markBegins().MatchString(s.text[at:]) || s.mentioned && strayClose().MatchString(s.text[at:])) {
		return length
	}
	return s.listedLength(at, line, length)
}

// listedLength returns the length of a mark in one of mentionPlaces, or of a pair of them, or 0.
func (s *scanner) listedLength(at int, line string, length int) int {
	after := s.text[at+length:]
	if pair := joined().FindStringIndex(after); pair != nil {
		return length + pair[1]
	}
	if pair := ellipsis().FindStringIndex(after); pair != nil {
		rest := after[pair[1]:]
		if leadsTo().MatchString(line) || isCalled().MatchString(rest) ||
			inProse().MatchString(line) && punctuation().MatchString(rest) ||
			lineStart().MatchString(line) && speaksOf().MatchString(rest) {
			return length + pair[1]
		}
	}
	mentions := func(place mentionPlace) bool {
		return place.before().MatchString(line) && place.after().MatchString(after)
	}
	mark := s.text[at:]
	ofTemplate := markBegins().MatchString(mark) && !thoughtMark().MatchString(mark) &&
		!turnStarts().MatchString(strings.TrimSpace(after))
	if slices.ContainsFunc(mentionPlaces, mentions) || ofTemplate && (slices.ContainsFunc(templatePlaces, mentions) ||
		s.mentioned && afterColon().MatchString(line) && lineEnd().MatchString(after)) {
		return length
	}
	return 0
}

var (
	copyOpens = compiled(`<<([A-Za-z0-9]{16,})[ \t]*\n`)
	copyGoes  = compiled(`\A>>[ \t]*\n\n[A-Z]+\n(?:[^<\n][^\n]*\n)*<<`)
)

// textAfterCopy returns the text after a copy of the prompt that ends with its own last fence.
func textAfterCopy(text string) string {
	opens := copyOpens().FindStringSubmatchIndex(text)
	if opens == nil {
		return ""
	}
	fence, rest := text[opens[2]:opens[3]], text[opens[1]-1:]
	for {
		_, behind, closed := strings.Cut(rest, "\n"+fence)
		if !closed {
			return ""
		}
		goes := copyGoes().FindString(behind)
		if !strings.HasPrefix(behind[len(goes):], fence) || goes == "" {
			return strings.TrimLeft(behind, ">")
		}
		rest = behind[len(goes):]
	}
}
