package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"codeq/internal/peer"
)

// script is a driver in another language.
type script struct {
	// dir is where it runs, from this folder.
	dir string
	// command is the program and its arguments.
	command []string
	// probe is a command that ends with 0 when what the driver needs is installed.
	probe []string
	// env is added to the environment.
	env []string
}

// forTest skips the test, or fails it where everything is required, when the script's needs are not installed.
func (s script) forTest(t *testing.T) driver {
	t.Helper()
	probe := exec.Command(s.probe[0], s.probe[1:]...)
	probe.Dir = s.dir
	if out, err := probe.CombinedOutput(); err != nil {
		err = fmt.Errorf("%s: %w: %w: %s", strings.Join(s.probe, " "), peer.ErrMissing, err, out)
		peer.Missing(t, err)
		t.Fatal(err)
	}
	return s.drive
}

// drive runs the script and passes on its lines. Its standard error becomes part of the error when it fails.
func (s script) drive(ctx context.Context, o order, report func(event)) error {
	host, port, err := o.split()
	if err != nil {
		return err
	}
	kill := "0"
	if o.kill {
		kill = "1"
	}
	// The kernel sends the parent-death signal when the thread that forked ends, so this one stays until the script has ended.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	cmd := exec.CommandContext(ctx, s.command[0], s.command[1:]...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "CODEQ_HOST="+host, "CODEQ_PORT="+port, "E2E_TASKS="+strconv.Itoa(o.tasks),
		"E2E_SEED="+strconv.FormatUint(o.seed, 10), "E2E_KILL="+kill)
	cmd.Env = append(cmd.Env, s.env...)
	// A group of its own, so that the workers that a script starts end with it.
	cmd.SysProcAttr = peer.DieWithParent()
	cmd.SysProcAttr.Setpgid = true
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	// A child that has left the group may keep the outputs open; they are not waited for much longer than the script.
	cmd.WaitDelay = outputDelay
	out := lines{report: report, stop: stop}
	var log tail
	cmd.Stdout, cmd.Stderr = &out, &log
	err = cmd.Run()
	if err := errors.Join(out.wrong, err, ctx.Err()); err != nil {
		return fmt.Errorf("%s: %w; it said:\n%s", strings.Join(s.command, " "), err, log.Bytes())
	}
	return nil
}

// outputDelay is how long after its end a script's outputs may stay open.
const outputDelay = 5 * time.Second

// lines passes on each line that a script writes, and stops the script at the first that is none of ours.
type lines struct {
	report func(event)
	stop   func()
	part   []byte // of a line whose end has not come yet
	wrong  error
}

func (l *lines) Write(p []byte) (int, error) {
	l.part = append(l.part, p...)
	for l.wrong == nil {
		line, rest, whole := bytes.Cut(l.part, []byte("\n"))
		if !whole {
			break
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			l.wrong = fmt.Errorf("line %q: %w", line, err)
			l.stop()
			break
		}
		l.report(e)
		l.part = rest
	}
	return len(p), nil
}

// tailLimit is how much of a script's log is kept.
const tailLimit = 64 << 10

// tail keeps the end of what a script writes. os/exec writes from one goroutine and is waited for before anybody reads.
type tail struct{ bytes.Buffer }

func (b *tail) Write(p []byte) (int, error) {
	b.Buffer.Write(p)
	if over := b.Len() - tailLimit; over > 0 {
		b.Next(over)
	}
	return len(p), nil
}

// TestScript proves that a script's lines arrive and that one that fails, hangs or says nonsense is noticed.
func TestScript(t *testing.T) {
	run := func(ctx context.Context, text string) ([]event, error) {
		var got []event
		s := script{dir: ".", command: []string{"sh", "-c", text}, probe: []string{"true"}}
		err := s.forTest(t)(ctx, order{addr: "127.0.0.1:1", tasks: 3}, func(e event) { got = append(got, e) })
		return got, err
	}
	got, err := run(t.Context(), `echo "{\"event\":\"note\",\"text\":\"$CODEQ_HOST $CODEQ_PORT $E2E_TASKS $E2E_KILL\"}"`)
	if err != nil || len(got) != 1 || got[0].Text != "127.0.0.1 1 3 0" {
		t.Errorf("read %+v, %v", got, err)
	}
	if _, err := run(t.Context(), "echo reason >&2; exit 3"); err == nil || !strings.Contains(err.Error(), "reason") {
		t.Errorf("a script that fails: %v", err)
	}
	if _, err := run(t.Context(), "echo nonsense; exec sleep 1000"); err == nil {
		t.Error("nonsense was accepted")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := run(ctx, "sleep 1000 & wait"); !errors.Is(err, context.Canceled) {
		t.Errorf("a script that hangs: %v", err)
	}
}
