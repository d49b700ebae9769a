package supplier

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseKey(t *testing.T) {
	tests := []struct {
		key  string
		want string // command|tenant|shard|state|priority|tagged; empty where it is no queue key
	}{
		{"codeq:q:generate_master:pending:9", "generate_master|||pending|9|false"},
		{"codeq:q:generate_master:acme:pending:0", "generate_master|acme||pending|0|false"},
		{"codeq:q:c:inprog", "c|||inprog|0|false"},
		{"codeq:q:c:delayed", "c|||delayed|0|false"},
		{"codeq:q:c:t:dlq", "c|t||dlq|0|false"},
		{"codeq:q:c:s:premium:dlq", "c||premium|dlq|0|false"},
		{"codeq:q:c:t:s:premium:pending:3", "c|t|premium|pending|3|false"},
		{"codeq:q:{c}:inprog", "c|||inprog|0|true"},
		{"codeq:q:{c:t}:inprog", "c|t||inprog|0|true"},
		{"codeq:q:{c:t}:s:premium:pending:3", "c|t|premium|pending|3|true"},
		// Tenants with colons, also such as look like a state or half of a shard.
		{"codeq:q:c:a:b:c:inprog", "c|a:b:c||inprog|0|false"},
		{"codeq:q:c:pending:3:inprog", "c|pending:3||inprog|0|false"},
		{"codeq:q:c:s:inprog", "c|s||inprog|0|false"},
		{"codeq:q:c:s::inprog", "c|s:||inprog|0|false"},
		{"codeq:q:c:a:s:b:c:inprog", "c|a:s:b:c||inprog|0|false"},
		{"codeq:q:c:a:s:b:s:d:inprog", "c|a:s:b|d|inprog|0|false"},
		{"codeq:q:{c:a:s:b}:inprog", "c|a:s:b||inprog|0|true"},
		{"codeq:q:c:{t}:inprog", "c|{t}||inprog|0|false"},
		{"codeq:q:s:premium:inprog", "s|premium||inprog|0|false"},
		{"codeq:q:pending:inprog", "pending|||inprog|0|false"},
		{"codeq:q:größe:inprog", "größe|||inprog|0|false"},
		// No queue keys.
		{"", ""},
		{"codeq:q:", ""},
		{"codeq:q:inprog", ""},
		{"codeq:q::inprog", ""},
		{"codeq:q::t:inprog", ""},
		{"codeq:q:c::inprog", ""},
		{"codeq:q:c::s:premium:inprog", ""},
		{"codeq:q:c", ""},
		{"codeq:q:c:pending", ""},
		{"codeq:q:c:pending:", ""},
		{"codeq:q:c:pending:10", ""},
		{"codeq:q:c:pending:x", ""},
		{"codeq:q:c:INPROG", ""},
		{"codeq:q:C:inprog", ""},
		{"codeq:q:GRÖSSE:inprog", ""},
		{"codeq:q:Ö:inprog", ""},
		{"codeq:q:\xff:inprog", ""},
		{"codeq:q:{c:inprog", ""},
		{"codeq:q:{}:inprog", ""},
		{"codeq:q:{c:}:inprog", ""},
		{"codeq:q:{c}t:inprog", ""},
		{"codeq:q:{c}:t:inprog", ""},
		{"codeq:q:{c}:s::inprog", ""},
		{"codeq:q:{c}:s:a:b:inprog", ""},
		{"codeq:Q:c:inprog", ""},
		{"codeq:tasks", ""},
	}
	for _, tt := range tests {
		got := ""
		if k, ok := ParseKey([]byte(tt.key)); ok {
			got = fmt.Sprintf("%s|%s|%s|%v|%d|%v", k.Command, k.Tenant, k.Shard, k.State, k.Priority, k.Tagged)
			if back := k.AppendTo(nil); string(back) != tt.key {
				t.Errorf("%q is written back as %q", tt.key, back)
			}
		}
		if got != tt.want {
			t.Errorf("%q is read as %q, want %q", tt.key, got, tt.want)
		}
	}
}

func TestKeyAppendToFoldsCommand(t *testing.T) {
	for command, want := range map[string]string{
		"GENERATE_MASTER": "codeq:q:generate_master:T:inprog",
		"GRÖSSE":          "codeq:q:grösse:T:inprog",
		"plain":           "codeq:q:plain:T:inprog",
	} {
		k := Key{Command: []byte(command), Tenant: []byte("T"), State: InProgress}
		if got := k.AppendTo(nil); string(got) != want {
			t.Errorf("%q is written as %q, want %q", command, got, want)
		}
		expectError(t, k.Validate(), "")
	}
}

func TestKeyValidate(t *testing.T) {
	tests := []struct {
		key  Key
		want string
	}{
		{Key{Command: []byte("c"), Tenant: []byte("a:b"), Shard: []byte("premium"), Priority: 9}, ""},
		{Key{Command: []byte("c"), Tenant: []byte("a:s:b"), Tagged: true}, ""},
		{Key{Command: []byte("c"), Tenant: []byte("a:s:b"), Shard: []byte("d")}, ""},
		{Key{}, "command is empty"},
		{Key{Command: []byte("a:b")}, "colon"},
		{Key{Command: []byte("{a")}, "brace"},
		{Key{Command: []byte("\xff")}, "UTF-8"},
		{Key{Command: []byte("c"), Shard: []byte("a:b")}, "no shard's name"},
		{Key{Command: []byte("c"), Priority: 10}, "priority 10"},
		{Key{Command: []byte("c"), Priority: -1}, "priority -1"},
		{Key{Command: []byte("c"), Priority: 1, State: DLQ}, "with pending only"},
		{Key{Command: []byte("c"), State: 9}, "State(9)"},
		{Key{Command: []byte("c"), Tenant: []byte("a:s:b")}, "read back otherwise"},
		{Key{Command: []byte("c"), Tenant: []byte("s:b")}, "read back otherwise"},
		{Key{Command: []byte("c"), Tenant: []byte("a}"), Tagged: true}, "read back otherwise"},
	}
	for _, tt := range tests {
		expectError(t, tt.key.Validate(), tt.want)
	}
}

// TestKeyRoundTrip draws keys from an alphabet made of what the grammar is made
// of, so that the odd cases are the common ones.
func TestKeyRoundTrip(t *testing.T) {
	piece := rapid.SampledFrom([]string{":", "s", ":s:", "{", "}", "a", "b", "Ü", "ü", "pending", ":pending:1", "inprog", "\xff", "C"})
	text := rapid.Custom(func(t *rapid.T) []byte {
		return []byte(strings.Join(rapid.SliceOfN(piece, 0, 5).Draw(t, "pieces"), ""))
	})
	rapid.Check(t, func(t *rapid.T) {
		k := Key{
			Command: text.Draw(t, "command"),
			Tenant:  text.Draw(t, "tenant"),
			Shard:   text.Draw(t, "shard"),
			State:   State(rapid.IntRange(0, 3).Draw(t, "state")),
			Tagged:  rapid.Bool().Draw(t, "tagged"),
		}
		if k.State == Pending {
			k.Priority = rapid.IntRange(0, MaxPriority).Draw(t, "priority")
		}
		if k.Validate() != nil {
			return
		}
		key := k.AppendTo(nil)
		back, ok := ParseKey(key)
		if !ok || !bytes.Equal(back.Command, bytes.ToLower(k.Command)) || !bytes.Equal(back.Tenant, k.Tenant) ||
			!bytes.Equal(back.Shard, k.Shard) || back.State != k.State || back.Priority != k.Priority || back.Tagged != k.Tagged {
			t.Fatalf("%q is read as %+v, written from %+v", key, back, k)
		}
	})
}

func TestParsedKeysAreValid(t *testing.T) {
	piece := rapid.SampledFrom([]string{":", "s", ":s:", "{", "}", "a", "Ü", "ü", ":pending:1", ":inprog", ":dlq", "\xff", "C"})
	rapid.Check(t, func(t *rapid.T) {
		key := queuePrefix + strings.Join(rapid.SliceOfN(piece, 1, 8).Draw(t, "pieces"), "")
		k, ok := ParseKey([]byte(key))
		if !ok {
			return
		}
		if err := k.Validate(); err != nil {
			t.Fatalf("%q is read as a key that is not valid: %v", key, err)
		}
		if back := k.AppendTo(nil); string(back) != key {
			t.Fatalf("%q is written back as %q", key, back)
		}
	})
}

// TestHash64 holds the hash against values that another implementation gave: every server and client must agree on it.
func TestHash64(t *testing.T) {
	for text, want := range map[string]uint64{
		"":                                     0xefd01f60ba992926,
		"a":                                    0x82a2a958a9bece5b,
		"generate_master:acme":                 0x38877031453fd26d,
		"job:7:7":                              0xcc83566a92d9f9ca,
		"9b2f3c1e-8a4d-4f6b-9c0e-2d1a7b5e6f30": 0x9414c3f6bfc90429,
		"\x00\xff\x80":                         0xfbf948707efea51b,
	} {
		if got := Hash64([]byte(text)); got != want {
			t.Errorf("the hash of %q is %#x, want %#x", text, got, want)
		}
	}
}
