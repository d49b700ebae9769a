package peer

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// ErrMissing is wrapped by errors that say that this machine lacks a program, as opposed to a program that fails.
var ErrMissing = errors.New("not available here")

// EnvServer names the environment variable with the path of a codeq-server to run instead of building one.
const EnvServer = "TEST_CODEQ_SERVER"

// module is the name of the server's module.
const module = "codeq"

// serverPackage is the package that codeq-server is built from, relative to the module's root.
const serverPackage = "cmd/codeq-server"

// buildOnce builds codeq-server at most once per process and keeps the result.
var buildOnce = sync.OnceValues(build)

// binary finds the program of a kind, building it where that is needed.
func binary(kind Kind) (string, error) {
	switch kind {
	case Redis:
		return look("redis-server")
	case Codeq:
		if path := os.Getenv(EnvServer); path != "" {
			return filepath.Abs(path)
		}
		return buildOnce()
	}
	return "", fmt.Errorf("unknown kind of server %q", kind)
}

// Tool finds a program of the Redis tools, such as redis-cli. The error wraps ErrMissing.
func Tool(name string) (string, error) { return look(name) }

func look(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s: %w (Debian: apt-get install redis-server redis-tools)", name, ErrMissing)
	}
	return path, nil
}

// build compiles codeq-server into a fresh temporary directory, which RemoveBuild deletes.
func build() (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(root, serverPackage)); err != nil {
		return "", fmt.Errorf("%s is not in this checkout: %w", serverPackage, ErrMissing)
	}
	dir, err := os.MkdirTemp("", buildPrefix())
	if err != nil {
		return "", fmt.Errorf("make build directory: %w", err)
	}
	out := filepath.Join(dir, "codeq-server")
	cmd := exec.Command("go", "build", "-o", out, "./"+serverPackage)
	cmd.Dir = root
	if msg, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", serverPackage, err, msg)
	}
	return out, nil
}

// buildPrefix holds the process id, so that RemoveBuild finds what this process built without remembering it.
func buildPrefix() string { return fmt.Sprintf("codeq-build-%d-", os.Getpid()) }

// RemoveBuild deletes what this process built. Call it last, from TestMain or main.
func RemoveBuild() {
	// A pattern without special characters cannot be malformed, and what cannot be removed stays in the temporary
	// directory.
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), buildPrefix()+"*"))
	for _, dir := range dirs {
		_ = os.RemoveAll(dir)
	}
}

// moduleRoot is where the server's module lies, also for a module that uses it.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("find module root: %w", err)
	}
	return string(bytes.TrimSpace(out)), nil
}

// environment is this process' environment without the variables that codeq-server would take for settings: those of the
// tests, which it refuses, and those of whoever runs them.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "CODEQ_") })
}

// arguments is the command line for opts; for codeq it writes the configuration file first.
func arguments(opts Options) ([]string, error) {
	if opts.Kind == Redis {
		return redisArguments(opts)
	}
	// Named by its content's server, since two servers may be given one directory: one of them has to refuse it.
	file := filepath.Join(opts.Dir, fmt.Sprintf("peer-config-%d-%s.yaml", opts.Shards, opts.Supplier))
	data := filepath.Join(opts.Dir, "data")
	if err := os.WriteFile(file, []byte(configYAML(opts)), 0o600); err != nil {
		return nil, fmt.Errorf("write configuration: %w", err)
	}
	return append([]string{"--config", file, "--addr", opts.Addr, "--data", data}, opts.Args...), nil
}

func redisArguments(opts Options) ([]string, error) {
	args := []string{"--dir", opts.Dir, "--daemonize", "no", "--save", ""}
	if strings.HasPrefix(opts.Addr, "/") {
		args = append(args, "--port", "0", "--unixsocket", opts.Addr)
	} else {
		host, port, err := net.SplitHostPort(opts.Addr)
		if err != nil {
			return nil, fmt.Errorf("address of redis-server: %w", err)
		}
		args = append(args, "--bind", host, "--port", port)
	}
	if opts.AppendFsync == "" {
		args = append(args, "--appendonly", "no")
	} else {
		args = append(args, "--appendonly", "yes", "--appendfsync", opts.AppendFsync)
	}
	return append(args, opts.Args...), nil
}

// configYAML is codeq's configuration file for opts; keys that opts leave open are left out.
func configYAML(opts Options) string {
	var b strings.Builder
	if opts.Shards > 0 {
		fmt.Fprintf(&b, "shards: %d\n", opts.Shards)
	}
	if opts.Supplier != "" {
		fmt.Fprintf(&b, "supplier: %s\n", opts.Supplier)
	}
	if opts.AppendFsync != "" {
		fmt.Fprintf(&b, "appendfsync: %s\n", strconv.Quote(opts.AppendFsync))
	}
	if len(opts.PerShardScripts) > 0 {
		fmt.Fprintf(&b, "per-shard-scripts: [%s]\n", strings.Join(opts.PerShardScripts, ", "))
	}
	if opts.Static == nil {
		return b.String()
	}
	fmt.Fprintf(&b, "static:\n  default-shard: %s\n", opts.Static.DefaultShard)
	writeMapping(&b, "commands", opts.Static.Commands)
	writeMapping(&b, "tenants", opts.Static.Tenants)
	return b.String()
}

func writeMapping(b *strings.Builder, name string, mapping map[string]string) {
	if len(mapping) == 0 {
		return
	}
	fmt.Fprintf(b, "  %s:\n", name)
	for _, from := range slices.Sorted(maps.Keys(mapping)) {
		fmt.Fprintf(b, "    %s: %s\n", strconv.Quote(from), mapping[from])
	}
}
