package markdown

import (
	"strconv"
	"strings"

	"hubbub/protocol/text"
)

// countLazyNumbers numbers a list whose items all begin with "1.", unless the number means "first" or
// is the day of a date.
func countLazyNumbers(items []item) {
	ordinals, words := 0, map[string]bool{}
	for _, it := range items {
		if it.mark != "1." && it.mark != "1)" {
			return
		}
		if isOrdinal(it.blocks) {
			ordinals++
		}
		words[firstWord().FindString(strings.ToLower(itemText(it.blocks)))] = true
	}
	if 2*ordinals >= len(items) || len(words) == 1 && !words[""] { // perhaps an ordinal of another noun
		return
	}
	for i := range items {
		items[i].number = i + 1
		items[i].mark = strconv.Itoa(i+1) + items[i].mark[1:]
	}
}

// firstWord matches a word of four letters or more at the beginning of a text in lower case. Shorter words, such
// as most articles, begin many items that have nothing in common.
var firstWord = text.Pattern(`^[\pL\pM]{4,}`)

func itemText(blocks []block) string {
	if len(blocks) == 0 {
		return ""
	}
	return strings.TrimLeft(blocks[0].text, "*_ ")
}

// isOrdinal reports whether "1." before an item means "first", as in "1. Klasse", or belongs to a date
// or to a game of chess.
func isOrdinal(blocks []block) bool {
	if len(blocks) > 0 && blocks[0].kind == list { // 1. 5. 2024
		mark := blocks[0].items[0].mark
		return strings.HasSuffix(mark, ".") && mark != "1."
	}
	text := itemText(blocks)
	return ordinal().MatchString(text) || month().MatchString(text)
}

// month matches the names of months in languages that write days as "1.".
var month = text.Pattern(`(?i)^(?:` +
	`(?:jan|mar|des)(?:[.:]| \d+)|jän|feb|mär|apr|jun|jul|aug|sept?|okt|oct|nov|dez|dec|` +
	`janu[aá]\pL+|jänner|janv\pL+|jaanuar\pL*|janúar|febr\pL+|feber|veebr\pL+|märz|märts\pL*|mars|marts|march|` +
	`marec|marca|marz\pL+|mart|(?-i:marta)|apr[ií]l\pL*|maj|maja|máj|mája|maí|mai|may|maijs|maijā|` +
	`jun[eiy]|juuni\pL*|jún\pL*|jūn\pL+|jul[iy]|juuli\pL*|júl\pL*|jūl\pL+|august\pL*|avgust\pL*|ágúst\pL*|` +
	`septem\pL+|o[ck]t[oó]b\pL+|oktoober\pL*|nóvem\pL+|novem\pL+|de[czs]em\pL+|detsem\pL+|sausi\pL+|` +
	`(?:tammi|helmi|maalis|huhti|touko|kesä|heinä|elo|syys|loka|marras|joulu)kuu\pL*|` +
	`leden|ledna|únor\pL?|březen|března|duben|dubna|květen|května|červen|června|červenec|července|` +
	`srpen|srpna|září|říjen|října|prosinec|prosince|listopad\pL*|` +
	`stycz\pL+|luty|lutego|marzec|kwie[ct]\pL+|czerw\pL+|lip(?:iec|ca)|sierp\pL+|wrze[sś]\pL+|paździer\pL+|grud\pL+|` +
	`siječ\pL+|velja\pL+|ožuj\pL+|trav(?:anj|nja)|svib\pL+|lip(?:anj|nja)|srp(?:anj|nja)|kolovoz\pL?|ruj(?:an|na)|` +
	`studen(?:i|og|oga)|prosin(?:ac|ca))(?:[^\pL\pN]|$)`)

// ordinal matches what is first in these languages, such as classes, leagues, floors, holidays and clubs,
// and a move of chess. The first group has words that may end a longer one: Bundesliga.
var ordinal = text.Pattern(`(?i)^(?:` +
	`\pL*(?:liga|klassen?|klasa|klase|division|divisi[oó]n|divisjon|divisioona|halbjahr|halvår|[qk]vartal|quartal|` +
	`semester|trimester|stock|geschoss|etage|etasje|advent|adventti|søndag|feiertag|weihnachtstag|juledag|pinsedag|` +
	`påskedag|mannschaft|bürgermeister(?:in)?|vorsitzende[rn]?|weltkrieg|halbzeit|spieltag|bezirk|rang|platz|preis|` +
	`jahrhundert|schuljahr|lehrjahr|lebensjahr)|` +
	`og|ug|sal|kerros|luokka|jakso|hæð|deild|bekkur|třída|patro|místo|ročník|čtvrtletí|pololetí|poschodie|trieda|miesto|` +
	`piętro|miejsce|osztály|emelet|hely|kerület|félév|razred|kat|mjesto|mesto|nadstropje|sprat|klass|korrus|koht|` +
	`stāvs|vieta|sınıf|lig|dönem|yarı|` +
	`(?:mose|samuel|könige|chronik|korinther|thessalonicher|timotheus|petrus|johannes|mos|kor|joh|petr|tim) \d+|` +
	`(?-i:FC|FSV|FFC|SC|SV|SK|FK|HC|VC|TC|BC|CfR|TSV|HSG|VfL|VfB)|` +
	`(?-i:[KQRBNDTLS]?[a-h]?[1-8]?x?[a-h][1-8]|O-O(?:-O)?)[+#!?]*|` +
	`(?:[2-9]|1\d)\.(?:\d{4})?)(?:[^\pL\pN]|$)`)
