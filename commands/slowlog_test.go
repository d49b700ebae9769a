package commands

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"codeq/commands/spec"
	"codeq/config"
)

// startSlow starts a server with the commands that watch others, and SLOW and SLOWFAST, which take as many milliseconds as
// they are told, by the server's clock.
func startSlow(t *testing.T) *testServer {
	var s *testServer
	slow := func(c *Call) error {
		ms, _ := parseInt(c.Args[1])
		s.clock.Advance(time.Duration(ms) * time.Millisecond)
		c.Out.OK()
		return nil
	}
	s = startServer(t, append(append(slowLogCommands(), latencyCommands()...),
		declare("slow", "SLOW ms [word [word ...]]", 0, nil, slow),
		declare("slowfast", "SLOWFAST ms", spec.Fast, nil, slow))...)
	return s
}

func (s *testServer) set(pairs ...string) {
	s.t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if err := s.config.Set(config.Pair{Name: pairs[i], Value: pairs[i+1]}); err != nil {
			s.t.Fatal(err)
		}
	}
}

func TestSlowLog(t *testing.T) {
	s := startSlow(t)
	c := s.client()
	at := s.clock.Now()
	c.want(":0", "SLOWLOG LEN")
	// The default threshold is 10 ms.
	c.want("+OK +OK +OK :2", "SLOW 9", "SLOW 10", "SLOW 11 word", "SLOWLOG LEN")
	entry := func(id int, at time.Time, micros int, args string) string {
		return fmt.Sprintf("*6 :%d :%d :%d %s $0  $0 ", id, at.Unix(), micros, args)
	}
	first := entry(0, at.Add(19*time.Millisecond), 10_000, "*2 $4 SLOW $2 10")
	second := entry(1, at.Add(30*time.Millisecond), 11_000, "*3 $4 SLOW $2 11 $4 word")
	c.want("*2 "+second+" "+first, "SLOWLOG GET")
	c.want("*1 "+second, "SLOWLOG GET 1")
	c.want("*0", "SLOWLOG GET 0")
	// Only the latest stay; -1 turns the log off.
	s.set("slowlog-max-len", "2")
	c.want("+OK :2", "SLOW 100", "SLOWLOG LEN")
	if got := c.send("SLOWLOG GET -1"); !strings.HasPrefix(got, "*2 *6 :2 ") || !strings.Contains(got, " *6 :1 ") {
		t.Error(got)
	}
	s.set("slowlog-log-slower-than", "-1")
	c.want("+OK +OK :0", "SLOW 1000", "SLOWLOG RESET", "SLOWLOG LEN")
	s.set("slowlog-log-slower-than", "0", "slowlog-max-len", "0")
	c.want("+OK :0", "SLOW 1000", "SLOWLOG LEN")
	// Ids go on.
	s.set("slowlog-max-len", "10")
	if got := c.send("MULTI", "SLOW 1", "EXEC", "SLOWLOG GET 1"); !strings.Contains(got, " *6 :4 ") || !strings.HasSuffix(got, "$4 SLOW $1 1 $0  $0 ") {
		t.Error(got)
	}
}

// TestSlowLogHidesPasswords goes through the commands that have one.
func TestSlowLogHidesPasswords(t *testing.T) {
	for line, want := range map[string]string{
		"auth secret":                        "auth (redacted)",
		"auth default secret":                "auth (redacted) (redacted)",
		"hello 3 auth default secret":        "hello 3 auth (redacted) (redacted)",
		"hello 3 setname a auth default s":   "hello 3 setname a auth (redacted) (redacted)",
		"migrate h 1 k 0 9 auth s copy":      "migrate h 1 k 0 9 auth (redacted) copy",
		"migrate h 1 k 0 9 auth2 u s copy":   "migrate h 1 k 0 9 auth2 (redacted) (redacted) copy",
		"config set timeout 1 requirepass s": "config set timeout 1 requirepass (redacted)",
		"acl setuser default >secret":        "acl setuser (redacted) (redacted)",
		"set requirepass auth secret":        "set requirepass auth secret",
	} {
		args := batch(line)[0]
		name := string(args[0])
		if name == "config" || name == "acl" {
			name += "|" + string(args[1])
		}
		var shown []string
		for _, arg := range slowLogArgs(&Command{Command: spec.Command{Name: name}}, args) {
			shown = append(shown, string(arg))
		}
		if got := strings.Join(shown, " "); got != want {
			t.Errorf("%s is shown as %s, want %s", line, got, want)
		}
	}
}

func TestLatency(t *testing.T) {
	s := startSlow(t)
	c := s.client()
	c.want("+OK *0", "SLOW 1000", "LATENCY LATEST")
	if got := c.send("LATENCY DOCTOR"); !strings.Contains(got, "Nothing is measured") {
		t.Error(got)
	}
	s.set("latency-monitor-threshold", "10", "slowlog-log-slower-than", "-1")
	if got := c.send("LATENCY DOCTOR"); !strings.Contains(got, "No command took 10 ms or longer.") {
		t.Error(got)
	}
	s.clock.Advance(time.Second)
	began := s.clock.Now().Unix()
	c.want("+OK +OK +OK +OK", "SLOW 9", "SLOW 50", "SLOW 10", "SLOWFAST 20")
	s.clock.Advance(2 * time.Second)
	c.want("+OK", "SLOW 30")
	// The greatest of a second counts.
	history := fmt.Sprintf("*2 *2 :%d :50 *2 :%d :30", began, began+2)
	c.want(history, "LATENCY HISTORY command")
	c.want(fmt.Sprintf("*2 *4 $7 command :%d :30 :50 *4 $12 fast-command :%d :20 :20", began+2, began), "LATENCY LATEST")
	if got := c.send("LATENCY GRAPH command"); !strings.Contains(got, "command - high 50 ms, low 30 ms (all time high 50 ms)\n") ||
		!strings.Contains(got, " 2s ago       50 ms "+strings.Repeat("#", graphWidth)+"\n") ||
		!strings.Contains(got, " 0s ago       30 ms "+strings.Repeat("#", graphWidth*30/50)+"\n") {
		t.Error(got)
	}
	if got := c.send("LATENCY DOCTOR"); !strings.Contains(got, "command: slow in 2 different seconds, 40 ms on average and 50 ms at most.") {
		t.Error(got)
	}
	c.want(":1 *0 :1 :0", "LATENCY RESET command nosuch", "LATENCY HISTORY command", "LATENCY RESET", "LATENCY RESET")
	for range maxLatencySamples + 5 {
		c.send("SLOW 1000")
	}
	if got := c.send("LATENCY HISTORY command"); !strings.HasPrefix(got, fmt.Sprintf("*%d ", maxLatencySamples)) {
		t.Errorf("%.20s", got)
	}
}

// TestLatencyHistogram: the histograms count what the clock says, and the commands of a container are shown by its name.
func TestLatencyHistogram(t *testing.T) {
	s := startSlow(t)
	c := s.client()
	c.send("SLOW 1", "SLOW 2", "SLOWFAST 0", "SLOWLOG LEN")
	c.want("*2 $4 slow *4 $5 calls :2 $14 histogram_usec *4 :1056 :1 :2113 :2", "LATENCY HISTOGRAM slow nosuch")
	if got := c.send("LATENCY HISTOGRAM SlowLog"); !strings.HasPrefix(got, "*2 $11 slowlog|len *4 ") {
		t.Error(got)
	}
	s.resetCommandStats()
	c.want("*0", "LATENCY HISTOGRAM slow")
}

// TestErrorCodes: there is a bound on the codes that are told apart.
func TestErrorCodes(t *testing.T) {
	s := startServer(t)
	for i := range maxErrorCodes + 10 {
		s.countError(fmt.Appendf(nil, "-CODE%d text\r\n", i))
		s.countError([]byte("-CODE0 again\r\n"))
	}
	s.countError([]byte("-NOSPACE\r\n"))
	s.countError([]byte("-" + strings.Repeat("X", 40) + " text\r\n"))
	total, codes, counts := s.errors.all()
	if total != 2*(maxErrorCodes+10)+2 || len(codes) != maxErrorCodes || counts["CODE0"] != maxErrorCodes+11 || counts["ERR"] != 0 {
		t.Errorf("%d errors, %d codes, %d of CODE0, %d of ERR", total, len(codes), counts["CODE0"], counts["ERR"])
	}
	s.resetCommandStats()
	s.countError([]byte("-NOSPACE\r\n"))
	s.countError([]byte("-" + strings.Repeat("X", 40) + " text\r\n"))
	if total, _, counts = s.errors.all(); total != 2 || counts["ERR"] != 2 {
		t.Errorf("%d errors, %d of ERR", total, counts["ERR"])
	}
}
