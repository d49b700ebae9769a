package commands

import "testing"

func TestStringsLikeRedis(t *testing.T) {
	sameAsRedis(t, "strings.txt", stringCommands(), keyCommands(), listCommands())
}
