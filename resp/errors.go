package resp

import (
	"bytes"
	"strconv"
	"strings"
)

// Error is the text of an error reply, with its code and without the leading minus sign and the end of line. The texts in
// this file are those of Redis 7.0.15, byte for byte; clients compare them.
type Error string

func (e Error) Error() string { return string(e) }

// Code is the first word, such as ERR or WRONGTYPE.
func (e Error) Code() string {
	code, _, _ := strings.Cut(string(e), " ")
	return code
}

// Errors of the protocol. The connection is closed after any of them.
const (
	ErrProtoMultibulkLen       Error = "ERR Protocol error: invalid multibulk length"
	ErrProtoBulkLen            Error = "ERR Protocol error: invalid bulk length"
	ErrProtoBigInline          Error = "ERR Protocol error: too big inline request"
	ErrProtoBigMultibulk       Error = "ERR Protocol error: too big mbulk count string"
	ErrProtoBigBulk            Error = "ERR Protocol error: too big bulk count string"
	ErrProtoUnauthMultibulkLen Error = "ERR Protocol error: unauthenticated multibulk length"
	ErrProtoUnauthBulkLen      Error = "ERR Protocol error: unauthenticated bulk length"
	ErrProtoUnbalancedQuotes   Error = "ERR Protocol error: unbalanced quotes in request"
)

// ErrProtoExpectedBulk is the reply to an argument that begins with c instead of '$'.
func ErrProtoExpectedBulk(c byte) Error {
	return clean("ERR Protocol error: expected '$', got '" + string([]byte{c}) + "'")
}

// Errors of connections, authentication and the server.
const (
	ErrMaxClients       Error = "ERR max number of clients reached"
	ErrNoAuth           Error = "NOAUTH Authentication required."
	ErrHelloNoAuth      Error = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time"
	ErrWrongPass        Error = "WRONGPASS invalid username-password pair or user is disabled."
	ErrAuthNoPassword   Error = "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"
	ErrNoProto          Error = "NOPROTO unsupported protocol version"
	ErrProtoVersion     Error = "ERR Protocol version is not an integer or out of range"
	ErrClientName       Error = "ERR Client names cannot contain spaces, newlines or special characters."
	ErrNoSuchClient     Error = "ERR No such client"
	ErrClientIDPositive Error = "ERR client-id should be greater than 0"
	ErrInvalidClientID  Error = "ERR Invalid client ID"
	ErrDBIndex          Error = "ERR DB index is out of range"
	ErrNoConfigFile     Error = "ERR The server is running without a config file"
	// ErrConfigRewrite is our own: Redis rewrites the file.
	ErrConfigRewrite  Error = "ERR Rewriting config file: it is written by people only, change it there"
	ErrNoShutdown     Error = "ERR No shutdown in progress."
	ErrShutdown       Error = "ERR Errors trying to SHUTDOWN. Check logs."
	ErrInvalidCommand Error = "ERR Invalid command specified"
	ErrNoKeyArguments Error = "ERR The command has no key arguments"
)

// Errors of arguments and values.
const (
	ErrSyntax              Error = "ERR syntax error"
	ErrWrongType           Error = "WRONGTYPE Operation against a key holding the wrong kind of value"
	ErrNotInteger          Error = "ERR value is not an integer or out of range"
	ErrNotFloat            Error = "ERR value is not a valid float"
	ErrNotPositive         Error = "ERR value is out of range, must be positive"
	ErrNoSuchKey           Error = "ERR no such key"
	ErrInvalidCursor       Error = "ERR invalid cursor"
	ErrOverflow            Error = "ERR increment or decrement would overflow"
	ErrDecrementOverflow   Error = "ERR decrement would overflow"
	ErrHashNotInteger      Error = "ERR hash value is not an integer"
	ErrExpireNXAndOthers   Error = "ERR NX and XX, GT or LT options at the same time are not compatible"
	ErrExpireGTAndLT       Error = "ERR GT and LT options at the same time are not compatible"
	ErrScoreNaN            Error = "ERR resulting score is not a number (NaN)"
	ErrMinMaxNotFloat      Error = "ERR min or max is not a float"
	ErrMinMaxNotLex        Error = "ERR min or max not valid string range item"
	ErrZaddXXAndNX         Error = "ERR XX and NX options at the same time are not compatible"
	ErrZaddGTLTAndNX       Error = "ERR GT, LT, and/or NX options at the same time are not compatible"
	ErrZaddIncrPair        Error = "ERR INCR option supports a single increment-element pair"
	ErrZrangeLimit         Error = "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX"
	ErrZrangeWithScoresLex Error = "ERR syntax error, WITHSCORES not supported in combination with BYLEX"
)

// Errors of hashes, sets and sorted sets.
const (
	ErrHashNotFloat       Error = "ERR hash value is not a float"
	ErrNaNOrInfinity      Error = "ERR value is NaN or Infinity"
	ErrIncrementNaN       Error = "ERR increment would produce NaN or Infinity"
	ErrNumKeysNotPositive Error = "ERR numkeys should be greater than 0"
	ErrCountNotPositive   Error = "ERR count should be greater than 0"
	ErrLimitNegative      Error = "ERR LIMIT can't be negative"
)

// Errors of strings, keys and lists.
const (
	ErrStringTooLong    Error = "ERR string exceeds maximum allowed size (proto-max-bulk-len)"
	ErrOffsetOutOfRange Error = "ERR offset is out of range"
	ErrIndexOutOfRange  Error = "ERR index out of range"
	ErrRankZero         Error = "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list"
	ErrCountNegative    Error = "ERR COUNT can't be negative"
	ErrMaxLenNegative   Error = "ERR MAXLEN can't be negative"
)

// Errors of transactions and scripts.
const (
	ErrMultiNested         Error = "ERR MULTI calls can not be nested"
	ErrWatchInMulti        Error = "ERR WATCH inside MULTI is not allowed"
	ErrExecWithoutMulti    Error = "ERR EXEC without MULTI"
	ErrDiscardWithoutMulti Error = "ERR DISCARD without MULTI"
	ErrExecAbort           Error = "EXECABORT Transaction discarded because of previous errors."
	ErrNotInMulti          Error = "ERR Command not allowed inside a transaction"
	ErrNoScript            Error = "NOSCRIPT No matching script. Please use EVAL."
	ErrNumKeysNegative     Error = "ERR Number of keys can't be negative"
	ErrNumKeysTooMany      Error = "ERR Number of keys can't be greater than number of args"
	ErrScriptUnknown       Error = "ERR Unknown Redis command called from script"
	ErrScriptWrongArgs     Error = "ERR Wrong number of args calling Redis command from script"
	ErrScriptNotAllowed    Error = "ERR This Redis command is not allowed from script"
	ErrScriptFlushOption   Error = "ERR SCRIPT FLUSH only support SYNC|ASYNC option"
	ErrScriptNotBusy       Error = "NOTBUSY No scripts in execution right now."
	ErrScriptUnkillable    Error = "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command."
	ErrScriptDebugMode     Error = "ERR Use SCRIPT DEBUG YES/SYNC/NO"
)

// Errors of SORT, OBJECT and the administration.
const (
	ErrSortNotNumeric    Error = "ERR One or more scores can't be converted into double"
	ErrNoLFU             Error = "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust."
	ErrSlowlogCount      Error = "ERR count should be greater than or equal to -1"
	ErrUnblocked         Error = "UNBLOCKED client unblocked via CLIENT UNBLOCK"
	ErrTimeoutNegative   Error = "ERR timeout is negative"
	ErrUnblockReason     Error = "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"
	ErrTimeoutNotFloat   Error = "ERR timeout is not a float or out of range"
	ErrTimeoutNotInteger Error = "ERR timeout is not an integer or out of range"
	ErrClusterDisabled   Error = "ERR This instance has cluster support disabled"
	ErrNoReplicas        Error = "ERR FAILOVER requires connected replicas."
	ErrMasterPort        Error = "ERR Invalid master port"
	ErrProtocolType      Error = "ERR Wrong protocol type name. Please use one of the following: string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false"
	// ErrDiskLow has the code of Redis for a disk that can't be written.
	ErrDiskLow              Error = "MISCONF the disk with the data has less room than disk-free-limit: commands that add data are refused until there is more, those that take it out are not"
	ErrDiskSpent            Error = "MISCONF the disk with the data has less room than a quarter of disk-free-limit: commands that write are refused until there is more, but for those that delete, as DEL, FLUSHDB and Q.CLEANUP do"
	ErrDiskTransaction      Error = "MISCONF the disk with the data has less room than disk-free-limit, too little for what this command or transaction writes: do less at a time, or make room"
	ErrDebugNotAllowed      Error = "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server."
	ErrShardSubscribeInExec Error = "ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client"
	ErrModuleNotAllowed     Error = "ERR MODULE command not allowed. If the enable-module-command option is set to \"local\", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server."
	ErrGenPassBits          Error = "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096"
	ErrDefaultUser          Error = "ERR The 'default' user cannot be removed"
	ErrNoACLFile            Error = "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store users in the Redis configuration."

	ErrReloadOption Error = "ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options."
	ErrNeedsRESP3   Error = "ERR RESP2 is not supported by this command"

	// These are our own: what Redis would do there is not built.
	ErrNoReplication Error = "ERR replication is not supported: one server holds all shards, back its data folder up instead"
	ErrOneUser       Error = "ERR there is one user, default, with all rights: its password is requirepass"
	ErrActiveExpire  Error = "ERR DEBUG SET-ACTIVE-EXPIRE takes 0 or 1"
	ErrDebugSleep    Error = "ERR the seconds are not a positive number up to 86400"
)

// ErrSubcommandArgs is the reply of a command that finds its subcommands itself to one that doesn't exist or has other
// arguments.
func ErrSubcommandArgs(command string, sub []byte) Error {
	return clean("ERR unknown subcommand or wrong number of arguments for '" + string(excerpt(sub, maxErrorArg)) + "'. Try " + command + " HELP.")
}

// ErrNoLatencySamples is LATENCY GRAPH's reply to an event that has not happened.
func ErrNoLatencySamples(event []byte) Error {
	return clean("ERR No samples available for event '" + string(untilNUL(event)) + "'")
}

// ErrUnknownCategory is ACL CAT's reply to a category that doesn't exist.
func ErrUnknownCategory(name []byte) Error {
	return clean("ERR Unknown category '" + string(untilNUL(name)) + "'")
}

// ErrUserNotFound and ErrCommandNotFound are ACL DRYRUN's replies.
func ErrUserNotFound(user []byte) Error {
	return clean("ERR User '" + string(untilNUL(user)) + "' not found")
}

// ErrCommandNotFound is ACL DRYRUN's reply to a command that doesn't exist.
func ErrCommandNotFound(name []byte) Error {
	return clean("ERR Command '" + string(untilNUL(name)) + "' not found")
}

// ErrACLModifier is ACL SETUSER's reply to a rule that doesn't exist.
func ErrACLModifier(rule []byte) Error {
	return clean("ERR Error in ACL SETUSER modifier '" + string(untilNUL(rule)) + "': Syntax error")
}

// Errors of bitmaps, HyperLogLogs, geographic indexes, LCS and the algebra of sorted sets.
const (
	ErrBitOffset          Error = "ERR bit offset is not an integer or out of range"
	ErrBitValue           Error = "ERR bit is not an integer or out of range"
	ErrBitArgument        Error = "ERR The bit argument must be 1 or 0."
	ErrBitopNot           Error = "ERR BITOP NOT must be called with a single source key."
	ErrBitfieldType       Error = "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is."
	ErrBitfieldOverflow   Error = "ERR Invalid OVERFLOW type specified"
	ErrBitfieldReadOnly   Error = "ERR BITFIELD_RO only supports the GET subcommand"
	ErrNotHyperLogLog     Error = "WRONGTYPE Key is not a valid HyperLogLog string value."
	ErrCorruptHyperLogLog Error = "INVALIDOBJ Corrupted HLL object detected"
	ErrHLLNotSparse       Error = "ERR HLL encoding is not sparse"
	ErrPFDebugNoKey       Error = "ERR The specified key does not exist"
	ErrGeoUnit            Error = "ERR unsupported unit provided. please use M, KM, FT, MI"
	ErrGeoMember          Error = "ERR could not decode requested zset member"
	ErrGeoRadius          Error = "ERR need numeric radius"
	ErrGeoRadiusNegative  Error = "ERR radius cannot be negative"
	ErrGeoWidth           Error = "ERR need numeric width"
	ErrGeoHeight          Error = "ERR need numeric height"
	ErrGeoBoxNegative     Error = "ERR height or width cannot be negative"
	ErrGeoCount           Error = "ERR COUNT must be > 0"
	ErrGeoAnyNeedsCount   Error = "ERR the ANY argument requires COUNT argument"
	ErrLCSType            Error = "ERR The specified keys must contain string values"
	ErrLCSLenAndIdx       Error = "ERR If you want both the length and indexes, please just use IDX."
	ErrLCSMemory          Error = "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len"
	ErrWeightNotFloat     Error = "ERR weight value is not a float"
	ErrOutOfRange         Error = "ERR value is out of range"
)

// ErrHLLSelfTest is PFSELFTEST's reply when the named part of it fails.
func ErrHLLSelfTest(part string) Error { return Error("TESTFAILED " + part) }

// ErrPFDebugSubcommand is PFDEBUG's reply to a subcommand that doesn't exist, as sent.
func ErrPFDebugSubcommand(name []byte) Error {
	return clean("ERR Unknown PFDEBUG subcommand '" + string(untilNUL(name)) + "'")
}

// ErrLongitudeLatitude is the reply to a place outside of the map. Infinity is written as C does.
func ErrLongitudeLatitude(longitude, latitude float64) Error {
	text := strconv.FormatFloat(longitude, 'f', 6, 64) + "," + strconv.FormatFloat(latitude, 'f', 6, 64)
	return Error("ERR invalid longitude,latitude pair " + strings.ReplaceAll(strings.ToLower(text), "+", ""))
}

// ErrGeoStoreWith is the reply to a search that is to store and to tell more than members. command is GEOSEARCHSTORE or,
// for the older ones, how Redis calls their option.
func ErrGeoStoreWith(command string) Error {
	return Error("ERR " + command + " is not compatible with WITHDIST, WITHHASH and WITHCOORD options")
}

// ErrGeoCenter is the reply to a GEOSEARCH without a center; command is its name as sent.
func ErrGeoCenter(command []byte) Error {
	return clean("ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for " + string(untilNUL(command)))
}

// ErrGeoShape is the reply to a GEOSEARCH without a shape; command is its name as sent.
func ErrGeoShape(command []byte) Error {
	return clean("ERR exactly one of BYRADIUS and BYBOX can be specified for " + string(untilNUL(command)))
}

// ErrNoInputKeys is the reply to an operation over no sorted sets. name is in lower case.
func ErrNoInputKeys(name string) Error {
	return Error("ERR at least 1 input key is needed for '" + name + "' command")
}

// Errors of streams.
const (
	ErrInvalidStreamID    Error = "ERR Invalid stream ID specified as stream command argument"
	ErrInvalidStart       Error = "ERR invalid start ID for the interval"
	ErrInvalidEnd         Error = "ERR invalid end ID for the interval"
	ErrXaddZero           Error = "ERR The ID specified in XADD must be greater than 0-0"
	ErrXaddSmaller        Error = "ERR The ID specified in XADD is equal or smaller than the target stream top item"
	ErrXaddExhausted      Error = "ERR The stream has exhausted the last possible ID, unable to add more items"
	ErrTrimStrategies     Error = "ERR syntax error, MAXLEN and MINID options at the same time are not compatible"
	ErrTrimMaxLen         Error = "ERR The MAXLEN argument must be >= 0."
	ErrTrimLimit          Error = "ERR The LIMIT argument must be >= 0."
	ErrTrimLimitAlone     Error = "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy"
	ErrTrimLimitExact     Error = "ERR syntax error, LIMIT cannot be used without the special ~ option"
	ErrXtrimStrategy      Error = "ERR syntax error, XTRIM must be called with a trimming strategy"
	ErrEntriesAdded       Error = "ERR entries_added must be positive"
	ErrXsetidMaxDeleted   Error = "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id"
	ErrXsetidSmaller      Error = "ERR The ID specified in XSETID is smaller than the target stream top item"
	ErrXsetidEntriesAdded Error = "ERR The entries_added specified in XSETID is smaller than the target stream length"
	ErrUnbalancedStreams  Error = "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified."
	ErrXreadGroup         Error = "ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead."
	ErrXreadNoAck         Error = "ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead."
	ErrXreadNew           Error = "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option."
	ErrXreadgroupNoGroup  Error = "ERR Missing GROUP option for XREADGROUP"
	ErrXreadgroupLast     Error = "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set."
	ErrStreamGroupGone    Error = "NOGROUP the consumer group this client was blocked on no longer exists"
	ErrStreamGone         Error = "UNBLOCKED the stream key no longer exists"
	ErrGroupExists        Error = "BUSYGROUP Consumer Group name already exists"
	ErrEntriesRead        Error = "ERR value for ENTRIESREAD must be positive or -1"
	ErrXgroupNoKey        Error = "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically."
	ErrXclaimMinIdle      Error = "ERR Invalid min-idle-time argument for XCLAIM"
	ErrXclaimIdle         Error = "ERR Invalid IDLE option argument for XCLAIM"
	ErrXclaimTime         Error = "ERR Invalid TIME option argument for XCLAIM"
	ErrXclaimRetryCount   Error = "ERR Invalid RETRYCOUNT option argument for XCLAIM"
	ErrXautoclaimMinIdle  Error = "ERR Invalid min-idle-time argument for XAUTOCLAIM"
	ErrXautoclaimCount    Error = "ERR COUNT must be > 0"
)

// ErrBlockInScript is the reply to BLOCK in a script, with the command's name as sent.
func ErrBlockInScript(name []byte) Error {
	return clean("ERR " + string(untilNUL(name)) + " command is not allowed with BLOCK option from scripts")
}

// ErrNoGroup is the reply to a key that has no such consumer group, or is missing.
func ErrNoGroup(key, group []byte) Error {
	return clean("NOGROUP No such key '" + string(untilNUL(key)) + "' or consumer group '" + string(untilNUL(group)) + "'")
}

// ErrNoGroupToRead is XREADGROUP's form of ErrNoGroup.
func ErrNoGroupToRead(key, group []byte) Error {
	return ErrNoGroup(key, group) + " in XREADGROUP with GROUP option"
}

// ErrNoGroupAtKey is the reply of XGROUP and XINFO to a group that doesn't exist at a stream that does.
func ErrNoGroupAtKey(key, group []byte) Error {
	return clean("NOGROUP No such consumer group '" + string(untilNUL(group)) + "' for key name '" + string(untilNUL(key)) + "'")
}

// ErrXclaimOption is the reply to an unknown option, as sent.
func ErrXclaimOption(option []byte) Error {
	return clean("ERR Unrecognized XCLAIM option '" + string(untilNUL(option)) + "'")
}

// maxErrorArg is how much of a client's words an error repeats.
const maxErrorArg = 128

// ErrUnknownCommand is the reply to a command that does not exist. args begins with its name.
func ErrUnknownCommand(args [][]byte) Error {
	var quoted []byte
	for _, arg := range args[1:] {
		if len(quoted) >= maxErrorArg {
			break
		}
		quoted = append(quoted, '\'')
		quoted = append(quoted, excerpt(arg, maxErrorArg-len(quoted)+1)...)
		quoted = append(quoted, "' "...)
	}
	return clean("ERR unknown command '" + string(excerpt(args[0], maxErrorArg)) + "', with args beginning with: " + string(quoted))
}

// ErrUnknownSubcommand is the reply to a subcommand that does not exist, with the command's and its name as sent.
func ErrUnknownSubcommand(command, sub []byte) Error {
	return clean("ERR unknown subcommand '" + string(excerpt(sub, maxErrorArg)) + "'. Try " + upper(command) + " HELP.")
}

// ErrWrongArgs is the reply to a wrong number of arguments. name is the command's full name in lower case, such as get or
// config|set.
func ErrWrongArgs(name string) Error {
	return clean("ERR wrong number of arguments for '" + name + "' command")
}

// ErrInvalidExpire is the reply to an expire time of no use. name is in lower case.
func ErrInvalidExpire(name string) Error {
	return clean("ERR invalid expire time in '" + name + "' command")
}

// ErrUnsupportedOption is EXPIRE's reply to an unknown option, as sent.
func ErrUnsupportedOption(option []byte) Error {
	return clean("ERR Unsupported option " + string(untilNUL(option)))
}

// ErrHelloOption is HELLO's reply to an unknown or incomplete option, as sent.
func ErrHelloOption(option []byte) Error {
	return clean("ERR Syntax error in HELLO option '" + string(untilNUL(option)) + "'")
}

// ErrUnknownClientType is the reply to a TYPE that CLIENT LIST or CLIENT KILL doesn't know.
func ErrUnknownClientType(kind []byte) Error {
	return clean("ERR Unknown client type '" + string(untilNUL(kind)) + "'")
}

// ErrNoSuchUser is CLIENT KILL's reply to a USER that doesn't exist.
func ErrNoSuchUser(user []byte) Error {
	return clean("ERR No such user '" + string(untilNUL(user)) + "'")
}

// ErrClientInfoOption is CLIENT SETINFO's reply to an unknown attribute, as sent.
func ErrClientInfoOption(option []byte) Error {
	return clean("ERR Unrecognized option '" + string(untilNUL(option)) + "'")
}

// ErrClientInfo is CLIENT SETINFO's reply to a value that it does not take. name is in lower case.
func ErrClientInfo(name string) Error {
	return clean("ERR " + name + " cannot contain spaces, newlines or special characters.")
}

// ErrConfigUnknown is CONFIG SET's reply to a parameter that doesn't exist, as sent.
func ErrConfigUnknown(name []byte) Error {
	return clean("ERR Unknown option or number of arguments for CONFIG SET - '" + string(untilNUL(name)) + "'")
}

// ErrConfigSet is CONFIG SET's reply to a value that a parameter does not take; reason is the second half.
func ErrConfigSet(name []byte, reason string) Error {
	return clean("ERR CONFIG SET failed (possibly related to argument '" + string(untilNUL(name)) + "') - " + reason)
}

// ErrOutOfBounds is the reply to an integer outside of the bounds that a command sets, such as the count of SRANDMEMBER.
func ErrOutOfBounds(lowest, highest int64) Error {
	return Error("ERR value is out of range, value must between " + strconv.FormatInt(lowest, 10) + " and " + strconv.FormatInt(highest, 10))
}

// clean makes any text fit into the one line of an error reply.
func clean(s string) Error {
	s = strings.TrimRight(s, "\r\n")
	if strings.ContainsAny(s, "\r\n") {
		s = strings.NewReplacer("\r", " ", "\n", " ").Replace(s)
	}
	return Error(s)
}

// untilNUL cuts an argument where a C string would end.
func untilNUL(b []byte) []byte {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return b[:i]
	}
	return b
}

// excerpt is the beginning of an argument, at most n bytes.
func excerpt(b []byte, n int) []byte {
	b = untilNUL(b)
	return b[:min(len(b), n)]
}

func upper(b []byte) string { return string(bytes.ToUpper(untilNUL(b))) }

// Errors of DUMP, RESTORE, COPY, MOVE and SWAPDB.
const (
	ErrDumpPayload     Error = "ERR DUMP payload version or checksum are wrong"
	ErrDumpFormat      Error = "ERR Bad data format"
	ErrBusyKey         Error = "BUSYKEY Target key name already exists."
	ErrInvalidTTL      Error = "ERR Invalid TTL value, must be >= 0"
	ErrInvalidIdleTime Error = "ERR Invalid IDLETIME value, must be >= 0"
	ErrInvalidFreq     Error = "ERR Invalid FREQ value, must be >= 0 and <= 255"
	ErrSameObject      Error = "ERR source and destination objects are the same"
	ErrFirstDBIndex    Error = "ERR invalid first DB index"
	ErrSecondDBIndex   Error = "ERR invalid second DB index"

	// These are our own.
	ErrValueTooBig Error = "ERR the value is too big to be dumped, restored or copied by one command: the limit is 512 MiB, with 32 bytes added for each element"
	ErrSwapPinned  Error = "ERR the databases can't be swapped: database-shards puts them on different shards"
)

// ErrOtherHome is our own, for LSET and LINSERT on a list that is spread over the shards by its elements.
const ErrOtherHome Error = "ERR the list is spread over the shards, and the element belongs on another one than that which it would " +
	"replace or stand beside: push it instead"

// ErrNoDeadline is our own, for EXPIRE and its kin on a partitioned key, and for what would give it the deadline of another key.
const ErrNoDeadline Error = "ERR the key is spread over the shards and can't expire: let keys of your own expire, or remove its elements"

// Errors of MIGRATE.
const (
	ErrMigrateKeys    Error = "ERR When using MIGRATE KEYS option, the key argument must be set to the empty string"
	ErrMigrateConnect Error = "IOERR error or timeout connecting to the client"
	ErrMigrateWrite   Error = "IOERR error or timeout writing to target instance"
	ErrMigrateRead    Error = "IOERR error or timeout reading to target instance"

	// ErrMigrateApart is our own.
	ErrMigrateApart Error = "ERR MIGRATE can't be part of a transaction or a script"
)

// ErrMigrateRefused is MIGRATE's reply when the other server replies with an error.
func ErrMigrateRefused(text []byte) Error {
	return clean("ERR Target instance replied with error: " + string(text))
}

// ErrSaveInProgress is for SAVE and BGSAVE while another one runs.
const ErrSaveInProgress Error = "ERR Background save already in progress"

// Errors of pub/sub, MONITOR and CLIENT.
const (
	ErrReplicaKeyspace    Error = "ERR Replica can't interact with the keyspace"
	ErrMonitorNotBlocking Error = "ERR MONITOR isn't allowed for DENY BLOCKING client"
	ErrPauseMode          Error = "ERR CLIENT PAUSE mode must be WRITE or ALL"
	ErrCachingNotTracking Error = "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled"

	// ErrNoTracking is our own.
	ErrNoTracking Error = "ERR client-side caching is not supported: use CLIENT TRACKING OFF, and read what has to be fresh"
)

// ErrSubscribed is the reply to a command that a client of RESP2 with subscriptions may not send.
func ErrSubscribed(command string) Error {
	return clean("ERR Can't execute '" + command +
		"': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context")
}

// Errors of functions and of what scripts say about themselves. The engine has those of libraries.
const (
	ErrScriptMayWrite      Error = "ERR Can not execute a script with write flag using *_ro command."
	ErrFunctionNotFound    Error = "ERR Function not found"
	ErrLibraryNotFound     Error = "ERR Library not found"
	ErrBadNumKeys          Error = "ERR Bad number of keys provided"
	ErrLibraryNameMissing  Error = "ERR library name argument was not given"
	ErrFunctionFlushOption Error = "ERR FUNCTION FLUSH only supports SYNC|ASYNC option"
	ErrRestorePolicy       Error = "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE."
	ErrNotAFunction        Error = "ERR given type is not a function"
	ErrFunctionPayload     Error = "ERR Failed loading library payload"

	// ErrNoDebugger is our own.
	ErrNoDebugger Error = "ERR scripts can not be debugged on this server: it has no Lua debugger. Use redis.log, or a redis-server for development"
)

// ErrUnknownOption is FUNCTION LOAD's reply to an option that it does not have.
func ErrUnknownOption(option []byte) Error {
	return clean("ERR Unknown option given: " + string(untilNUL(option)))
}

// ErrUnknownArgument is FUNCTION LIST's reply to an argument that it does not have.
func ErrUnknownArgument(arg []byte) Error {
	return clean("ERR Unknown argument " + string(untilNUL(arg)))
}

// Errors of queues, all our own.
const (
	ErrQueueTime       Error = "ERR the time is out of range: give milliseconds, 0 to 9007199254740992, and above zero for a lease or a window"
	ErrQueueManyWithID Error = "ERR ID names one task: enqueue tasks with ids of your own one by one"
	ErrQueuePlace      Error = "ERR there is no such state: use PENDING, DELAYED, INPROG or DLQ"
	ErrQueueEmptyError Error = "ERR the error is empty: tell what went wrong, or leave ERROR out"
)

// ErrQueueNumber is the reply to a number of a queue's command that is not in its range.
func ErrQueueNumber(name string, low, high int64) Error {
	return clean("ERR " + name + " is out of range: give " + strconv.FormatInt(low, 10) + " to " + strconv.FormatInt(high, 10))
}

// Cleaned is the error reply with the text, which may hold what a client has sent.
func Cleaned(text string) Error { return clean(text) }
