package chorus

import (
	"net/netip"
	"testing"

	"hubbub/peers/netguard"
)

// TestInboxMessage_KeepsEmojiOfTheSender checks names with joiners, which are refused in ids.
func TestInboxMessage_KeepsEmojiOfTheSender(t *testing.T) {
	const family = "Ада 👩\u200d👩\u200d👧 ❤\ufe0f"
	p, err := ParseInboxMessage([]byte(`{"channel":{"id":"c"},"message":{"id":"m","sender":"`+family+`","content":"`+family+`"},"callback":"https://127.0.0.1/cb"}`),
		netguard.New([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}))
	if err != nil || p.Sender != family || p.Content != family {
		t.Errorf("%+v, %v; want it as it is", p, err)
	}
}
