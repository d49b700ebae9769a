package queue

import (
	"testing"
	"time"
)

// readTask has k read a task, whose id does not matter here.
func readTask(k *task, text string) error { return k.read(nil, []byte(text), nil) }

// TestReadValidatesEachName reads tasks one after the other, since a name that is that of the last one is not looked at again.
func TestReadValidatesEachName(t *testing.T) {
	var k task
	for _, test := range []struct {
		text string
		ok   bool
	}{
		{`{}`, false},
		{`{"command":"a"}`, true},
		{`{"command":"a"}`, true},
		{`{"command":"a","tenantId":"t:s:u"}`, false},
		{`{"command":"a","tenantId":"t:s:u"}`, false},
		{`{"command":"a:","tenantId":""}`, false},
		{`{"command":"a","tenantId":"t"}`, true},
		{`{"command":"b:c","tenantId":"t"}`, false},
		{`{"command":"a","tenantId":"t"}`, true},
		{`{"tenantId":"t"}`, false},
	} {
		if err := readTask(&k, test.text); (err == nil) != test.ok {
			t.Errorf("%s after the others: %v", test.text, err)
		}
	}
}

// TestTimeOfEachTask reads times one after the other, since one that is that of the last task is not parsed again.
func TestTimeOfEachTask(t *testing.T) {
	var k task
	for _, text := range []string{"", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.123Z", "2026-01-02T03:04:05.123456+02:00",
		"2026-02-30T03:04:05Z", "2026-01-02T03:04:05.123456+02:00", "", "2026-01-02"} {
		if err := readTask(&k, `{"command":"a","createdAt":"`+text+`"}`); err != nil {
			t.Fatal(err)
		}
		want, err := time.Parse(time.RFC3339Nano, text)
		if ms, ok := k.time(fieldCreatedAt); ok != (err == nil) || ok && ms != want.UnixMilli() {
			t.Errorf("%q after the others is %d and %v, want %d and %v", text, ms, ok, want.UnixMilli(), err)
		}
	}
}

func TestStamp(t *testing.T) {
	var s stamp
	for _, test := range []struct {
		ms   int64
		want string
	}{
		{0, `"1970-01-01T00:00:00Z"`},
		{1767323045123, `"2026-01-02T03:04:05.123Z"`},
		{1767323045123, `"2026-01-02T03:04:05.123Z"`},
		{1767323045120, `"2026-01-02T03:04:05.12Z"`},
		{0, `"1970-01-01T00:00:00Z"`},
	} {
		if got := string(s.format(test.ms, time.RFC3339Nano)); got != test.want {
			t.Errorf("%d is written as %s, want %s", test.ms, got, test.want)
		}
	}
}
