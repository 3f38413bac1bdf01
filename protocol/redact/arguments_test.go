package redact

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestArguments_RemoveWhatNamesSayIsSecret(t *testing.T) {
	const x = "[redacted:named]"
	for _, tt := range []struct{ in, want string }{
		{`{"user":"ann","password":"hunter2"}`, `{"user":"ann","password":"` + x + `"}`},
		{`{"dbPassword":"a","API_KEY":7,"X-Api-Key":["a"],"client.secret":{"a":1}}`, `{"dbPassword":"` + x + `","API_KEY":"` + x + `","X-Api-Key":"` + x + `","client.secret":"` + x + `"}`},
		{`{"apiKey":"a","apikey":"a","private-key":"a","PrivateKey":"a","accessTOKEN":"a","authtoken":"a","Set-Cookie":"a"}`, `{"apiKey":"` + x + `","apikey":"` + x + `","private-key":"` + x + `","PrivateKey":"` + x + `","accessTOKEN":"` + x + `","authtoken":"` + x + `","Set-Cookie":"` + x + `"}`},
		{`{"pass\u0077ord":"a","token":true,"Passwd":-1}`, `{"password":"` + x + `","token":"` + x + `","Passwd":"` + x + `"}`},
		{`{"a":[{"b":{"Authorization":"Basic YTpi"}}]}`, `{"a":[{"b":{"Authorization":"` + x + `"}}]}`},
		{`{"body":"{\"user\":\"ann\",\"password\":\"hunter2\"}"}`, `{"body":"{\"user\":\"ann\",\"password\":\"` + x + `\"}"}`},
		{`{"body":"{\"in\":\"{\\\"token\\\":\\\"t\\\"}\"}"}`, `{"body":"{\"in\":\"{\\\"token\\\":\\\"` + x + `\\\"}\"}"}`},
		{`{"headers":[{"value":"Bearer a","name":"Authorization"},{"name":"Accept","value":"b"}]}`, `{"headers":[{"value":"` + x + `","name":"Authorization"},{"name":"Accept","value":"b"}]}`},
		{`{"headers":[["Cookie","a=b"],["Accept","b"]]}`, `{"headers":[["Cookie","` + x + `"],["Accept","b"]]}`},
		{`{"args":["login","--password","hunter2","--user","ann"]}`, `{"args":["login","--password","` + x + `","--user","ann"]}`},
		{`{"args":["--password=hunter2","-H","Authorization: Bearer a b"]}`, `{"args":["--password=` + x + `","-H","Authorization: ` + x + `"]}`},
		{`{"cmd":"mysql --password='hun ter2' -u ann && echo done"}`, `{"cmd":"mysql --password='` + x + `' -u ann && echo done"}`},
		{`{"cmd":"PGPASSWORD=hunter2 psql; API_KEY=a\"b c\"d run --token t -v"}`, `{"cmd":"PGPASSWORD=` + x + ` psql; API_KEY=` + x + ` run --token ` + x + ` -v"}`},
		{`{"cmd":"curl -H 'Authorization: Bearer abc' -u ann:hunter2 https://x.example"}`, `{"cmd":"curl -H 'Authorization: ` + x + `' -u ann:` + x + ` https://x.example"}`},
		{`{"url":"https://ann:hunter2@x.example/?token=t&page=2#api_key=a"}`, `{"url":"https://ann:` + x + `@x.example/?token=` + x + `&page=2#api_key=` + x + `"}`},
		{`{"url":"postgres://ann:hun@ter2@db/x","git":"https://t0ken@git.example/x","ssh":"ssh://git@git.example"}`, `{"url":"postgres://ann:` + x + `@db/x","git":"https://` + x + `@git.example/x","ssh":"ssh://git@git.example"}`},
		{`{"yaml":"user: ann\npassword: hunter2 too\nport: 5"}`, `{"yaml":"user: ann\npassword: ` + x + `\nport: 5"}`},
		{`{"xml":"<user>ann</user><password>hunter2</password>"}`, `{"xml":"<user>ann</user><password>` + x + `</password>"}`},
		{`{"Kennwort":"a","mot_de_passe":"b","пароль":"c","密码":"d"}`, `{"Kennwort":"` + x + `","mot_de_passe":"` + x + `","пароль":"` + x + `","密码":"` + x + `"}`},
		{`{"api":{"id":1,"Key":"a"},"ssh":[{"key":["a"]}]}`, `{"api":{"id":1,"Key":"` + x + `"},"ssh":[{"key":"` + x + `"}]}`},
		{`{"element":"Password field","ref":"e1","text":"a"}`, `{"element":"Password field","ref":"e1","text":"` + x + `"}`},
		{`[{"selector":"#password","value":"a"},{"ParameterKey":"DBPassword","ParameterValue":"a"}]`, `[{"selector":"#password","value":"` + x + `"},{"ParameterKey":"DBPassword","ParameterValue":"` + x + `"}]`},
		{`{"args":["curl","-u","ann:a","https://x.example"]}`, `{"args":["curl","-u","ann:` + x + `","https://x.example"]}`},
		{`{"sql":"CREATE USER a IDENTIFIED BY 'b'; ALTER ROLE a PASSWORD 'b'"}`, `{"sql":"CREATE USER a IDENTIFIED BY '` + x + `'; ALTER ROLE a PASSWORD '` + x + `'"}`},
		{`{"code":"env['API_TOKEN'] = 'a'; setPassword("a"); auth=('ann','a')"}`, `{"code":"env['API_TOKEN'] = '` + x + `'; setPassword("` + x + `"); auth=` + x + `"}`},
		{`{"code":"const password: string = 'a';"}`, `{"code":"const password: ` + x + `;"}`},
		{`{"yaml":"db:\n  password: |\n    a\n    b\n  port: 5\nsecrets:\n  - a"}`, `{"yaml":"db:\n  password: ` + x + `\n  port: 5\nsecrets:` + x + `"}`},
		{`{"yaml":"- name: DB_PASSWORD\n  value: a\n- name: PORT\n  value: 5"}`, `{"yaml":"- name: DB_PASSWORD\n  value: ` + x + `\n- name: PORT\n  value: 5"}`},
		{`{"xml":"<add key=\"Password\" value=\"a\"/>"}`, `{"xml":"<add key=\"Password\" value=\"` + x + `\"/>"}`},
		{`{"url":"https://x.example/?sig=a&page=2&X-Amz-Signature=b"}`, `{"url":"https://x.example/?sig=` + x + `&page=2&X-Amz-Signature=` + x + `"}`},
		{`{"password":"hunter2","cut":"in the mid`, `{"password":"` + x + `","cut":"in the mid`},
		{`{"body":"{\"password\":\"hun`, `{"body":"{\"password\":` + x},
		{`{"url":"https://ann:hun!ter`, `{"url":"https://ann:` + x},
		{`{"a":1,"urls":["redis://:hunter2`, `{"a":1,"urls":["redis://:` + x},
		{`{"body":"{\"url\":\"amqp://ann:hun\\`, `{"body":"{\"url\":\"amqp://ann:` + x},
		{`{"url":"https://ann:1234567`, `{"url":"https://ann:` + x},
		{`Bearer abcdefgh12345678`, `Bearer ` + x},
	} {
		r := New()
		got := string(r.Arguments([]byte(tt.in)))
		if got != tt.want {
			t.Errorf("%s\nbecame %s\nwant   %s", tt.in, got, tt.want)
		}
		if twice := string(r.Arguments([]byte(got))); twice != got {
			t.Errorf("%s\nbecame, done twice, %s", got, twice)
		}
		if r.Found()["named"] == 0 {
			t.Errorf("%s: none was counted", tt.in)
		}
	}
}

func TestArguments_KeepTheRest(t *testing.T) {
	for _, text := range append([]string{
		`{"max_tokens":100,"tokenCount":3,"total_tokens":"12","token_type":"bearer","tokenizer":"bpe"}`,
		`{"password":null,"token":"","author":"ann","compass":"north","authority":"b","keyboard":"k"}`,
		`{"text":"the password is wrong, and max_tokens: 100","path":"a/secrets/b","mail":"ann@x.example"}`,
		`{"url":"https://x.example:8080`, `{"url":"http://[::1]:80`, `{"url":"https://x.example:8080/a:b`, `{"at":"10:15:30`,
		`{"key":"name","keys":["a"],"primary_key":"id","passed":true,"bypass":1,"element":"Search field","text":"password manager"}`,
		`{"text":"Bob's password (the old one) is gone","yaml":"name: port\n  value: 5","sql":"SELECT password FROM t WHERE a='b'"}`,
		`{"a" : 1.0e3, "b":[ ]}`, `["--verbose","x"]`, `"<b>&"`, `7`, `{"url":"https://x.example/a:b@c"}`, "half {\"a\":", "",
	}, kept...) {
		if got := string(New().Arguments([]byte(text))); got != text {
			t.Errorf("%s became %s", text, got)
		}
	}
	if got := string((*Redactor)(nil).Arguments([]byte(`{"password":"a"}`))); got != `{"password":"a"}` {
		t.Errorf("a nil redactor makes %s", got)
	}
}

// TestArguments_ShowNoValueOfSecretMembers holds for every spelling of a name, every form of a
// value and every nesting.
func TestArguments_ShowNoValueOfSecretMembers(t *testing.T) {
	r := New()
	words := []string{"password", "passwd", "token", "secret", "authorization", "api_key", "cookie", "private-key", "access token", "client_secret", "passphrase", "credentials"}
	rapid.Check(t, func(t *rapid.T) {
		secret := "Zq" + rapid.StringMatching(`[a-zA-Z0-9!$%*+/.:@#^_-]{6,30}`).Draw(t, "secret")
		name := spelled(rapid.SampledFrom(words).Draw(t, "word"), rapid.IntRange(0, 5).Draw(t, "spelling"))
		name = rapid.SampledFrom([]string{"", "db_", "my-", "X-"}).Draw(t, "prefix") + name
		var v any = secret
		switch rapid.IntRange(0, 3).Draw(t, "value") {
		case 1:
			v = []any{map[string]any{"x": secret}}
		case 2:
			v = map[string]any{"value": map[string]any{"deep": []string{secret}}}
		}
		switch rapid.IntRange(0, 6).Draw(t, "form") {
		case 0, 1:
			v = map[string]any{"a": 1, name: v}
		case 2:
			v = []any{map[string]any{"name": name, "value": v}}
		case 3:
			v = []any{"run", "--" + strings.ReplaceAll(name, " ", "-"), secret}
		case 4:
			v = "run --" + strings.ReplaceAll(name, " ", "-") + "='" + secret + "' now"
		case 5:
			v = "https://ann:" + strings.NewReplacer("/", "", "#", "", "?", "").Replace(secret) + "@x.example/path"
			secret = strings.NewReplacer("/", "", "#", "", "?", "").Replace(secret)
		case 6:
			v = name + ": " + secret
			if strings.Contains(name, " ") {
				v = map[string]any{name: secret}
			}
		}
		for i := range rapid.IntRange(0, 5).Draw(t, "depth") {
			raw, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			v = [...]any{map[string]any{"in": v}, []any{1, v}, string(raw), map[string]any{fmt.Sprint("n", i): string(raw)}}[rapid.IntRange(0, 3).Draw(t, "nest")]
		}
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		got := r.Arguments(raw)
		if !json.Valid(got) || strings.Contains(string(got), secret[:min(6, len(secret))]) {
			t.Fatalf("%s\nbecame %s", raw, got)
		}
		cut := raw[:rapid.IntRange(0, len(raw)).Draw(t, "cut")]
		if got := string(r.Arguments(cut)); strings.Contains(got, secret) {
			t.Fatalf("cut, %s\nbecame %s", cut, got)
		}
	})
}

// spelled returns a name in one of the ways in which programs spell names.
func spelled(name string, way int) string {
	parts := strings.FieldsFunc(name, func(c rune) bool { return strings.ContainsRune("_- ", c) })
	title := make([]string, len(parts))
	for i, p := range parts {
		title[i] = strings.ToUpper(p[:1]) + p[1:]
	}
	camel := strings.Join(title, "")
	return [...]string{name, strings.ToUpper(name), camel, strings.ToLower(camel[:1]) + camel[1:], strings.Join(title, "-"), strings.Join(parts, "")}[way]
}

// FuzzArguments checks that any text is searched without panics, and that JSON stays JSON.
func FuzzArguments(f *testing.F) {
	for _, s := range []string{`{"password":"a"}`, `--token "`, `\"password\":\"`, `<password>`, `secret={[`, strings.Repeat("[", 200) + strings.Repeat("]", 200)} {
		f.Add(s)
	}
	r := New()
	f.Fuzz(func(t *testing.T, text string) {
		once := r.Arguments([]byte(text))
		if json.Valid([]byte(text)) && !json.Valid(once) {
			t.Errorf("%q became %q", text, once)
		}
		if twice := r.Arguments(once); string(twice) != string(once) {
			t.Errorf("%q became %q, and then %q", text, once, twice)
		}
	})
}

func BenchmarkArguments(b *testing.B) {
	text := []byte(`{"a":[` + strings.Repeat(`{"name":"x","text":"a line of words, and one more: here"},`, 2000) + `1]}`)
	r := New()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		r.Arguments(text)
	}
}

// Little is read for each name, so that the time is linear.
func TestArguments_LimitsWhatItReadsForAName(t *testing.T) {
	slashes, spaces := strings.Repeat(`\\`, 50), strings.Repeat(" ", 5000)
	for text, want := range map[string]string{
		`password=` + slashes + `x y`:                    `password=[redacted:named] y`,
		`password="` + slashes + `x" y`:                  `password="[redacted:named]" y`,
		`password="` + slashes + `" y`:                   `password=[redacted:named]`,
		"password:'a' password:'b' c":                    "password:'[redacted:named]' password:'[redacted:named]' c",
		"a:\n  password: |\n    b\n    c\n  d":           "a:\n  password: [redacted:named]\n  d",
		"password:\n  b\r  c\rd\ne":                      "password:[redacted:named]\ne",
		"x" + spaces + "password:\n  b\nc":               "x" + spaces + "password:[redacted:named]\nc",
		strings.Repeat("x ", 3000) + "password:\n  b\nc": strings.Repeat("x ", 3000) + "password:[redacted:named]\nc",
	} {
		if got := string(New().Arguments([]byte(text))); got != want {
			t.Errorf("%.120q becomes %.120q; want %.120q", text, got, want)
		}
	}
}
