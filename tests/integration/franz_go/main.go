// Command franz_go writes, reads or copies a topic with franz-go until its standard input ends, and tells what the cluster told it, by lines:
//
//	franz_go write BOOTSTRAP TOPIC PARTITIONS PAUSE_MS
//	  S topic partition value             it is about to send a record
//	  A topic partition offset value      the record was acknowledged
//	franz_go read BOOTSTRAP TOPIC GROUP
//	  N                                   partitions were assigned or revoked
//	  R topic partition offset value      a record came
//	  C topic partition offset            a position was committed
//	franz_go copy BOOTSTRAP FROM TO ID    exactly once, in a group of the consumer protocol (KIP-848)
//	  T id                                a transaction was committed
//	  B id                                one was aborted
//	  L id text                           a client was given up for a new one
//	franz_go queue BOOTSTRAP TOPIC GROUP  a member of a share group (see queue.go)
//	  R partition offset count value      a record came, for the so manieth time
//	  K partition offset verdict          the cluster took its verdict: accept, release or reject
//	  F partition offset verdict text     it refused it, or the client does not know
//	franz_go try BOOTSTRAP TOPIC GROUP COUNT
//	  W                                   the cluster took so many records
//	  G                                   it gave as many in the group
//	  X step text                         a step (connect, write or read) was refused
//	E text                                something failed for good
//
// With --security=FILE before all others, clients connect as the file says (see security.go).
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const patience = 30 * time.Second

var (
	out  = bufio.NewWriter(os.Stdout)
	lock sync.Mutex
	way  []kgo.Opt
)

func tell(words ...any) {
	lock.Lock()
	defer lock.Unlock()
	fmt.Fprintln(out, words...)
	out.Flush()
}

func untilEndOfInput() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return ctx
}

func connect(bootstrap string, more ...kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(seeds(bootstrap, more...)...)
	check(err)
	return client
}

func seeds(bootstrap string, more ...kgo.Opt) []kgo.Opt {
	return append(append([]kgo.Opt{kgo.SeedBrokers(strings.Split(bootstrap, ",")...)}, way...), more...)
}

func check(err error) {
	if err != nil {
		tell("E", err)
		os.Exit(1)
	}
}

func write(ctx context.Context, bootstrap, topic string, partitions int, pause time.Duration) {
	client := connect(bootstrap, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for number := 1; ctx.Err() == nil; number++ {
		partition := number % partitions
		value := fmt.Sprintf("franz-go:%d:%d:", partition, number)
		tell("S", topic, partition, value)
		record := &kgo.Record{Topic: topic, Partition: int32(partition), Value: []byte(value)}
		client.Produce(context.Background(), record, func(record *kgo.Record, err error) {
			if err != nil {
				tell("E", string(record.Value), err)
				return
			}
			tell("A", record.Topic, record.Partition, record.Offset, string(record.Value))
		})
		time.Sleep(pause)
	}
	check(client.Flush(context.Background()))
	client.Close()
}

func read(ctx context.Context, bootstrap, topic, group string) {
	changed := func(context.Context, *kgo.Client, map[string][]int32) { tell("N") }
	client := connect(
		bootstrap,
		kgo.ConsumeTopics(topic),
		kgo.ConsumerGroup(group),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(changed),
		kgo.OnPartitionsRevoked(changed),
		kgo.OnPartitionsLost(changed),
	)
	for ctx.Err() == nil {
		fetches := client.PollRecords(ctx, 500)
		fetches.EachRecord(func(record *kgo.Record) {
			tell("R", record.Topic, record.Partition, record.Offset, string(record.Value))
		})
		if !fetches.Empty() {
			client.CommitOffsetsSync(context.Background(), client.UncommittedOffsets(), tellCommitted)
		}
		client.AllowRebalance()
	}
	client.CloseAllowingRebalance()
}

func tellCommitted(_ *kgo.Client, request *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error) {
	if err != nil {
		return
	}
	for i, topic := range response.Topics {
		for j, partition := range topic.Partitions {
			if kerr.ErrorForCode(partition.ErrorCode) == nil {
				tell("C", topic.Topic, partition.Partition, request.Topics[i].Partitions[j].Offset)
			}
		}
	}
}

// copyOnce copies with one client until it meets an error.
func copyOnce(ctx context.Context, bootstrap, from, to, id string) error {
	session, err := kgo.NewGroupTransactSession(seeds(
		bootstrap,
		kgo.TransactionalID(id),
		kgo.TransactionTimeout(15*time.Second),
		kgo.ConsumeTopics(from),
		kgo.ConsumerGroup(id),
		kgo.Balancers(kgo.RangeBalancer()),
		kgo.ServerSideBalancer(),
		kgo.RequireStableFetchOffsets(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)...)
	check(err)
	defer session.Close()
	for ctx.Err() == nil {
		fetches := session.PollRecords(ctx, 200)
		if fetches.NumRecords() == 0 {
			continue
		}
		if err := session.Begin(); err != nil {
			return err
		}
		var failed kgo.FirstErrPromise
		fetches.EachRecord(func(record *kgo.Record) {
			copied := &kgo.Record{Topic: to, Partition: record.Partition, Key: record.Key, Value: record.Value}
			session.Produce(context.Background(), copied, failed.Promise())
		})
		isCommitted, err := session.End(context.Background(), failed.Err() == nil)
		if err != nil {
			return err
		}
		if isCommitted {
			tell("T", id)
		} else {
			tell("B", id)
		}
	}
	return nil
}

// try writes so many records and reads as many, each as far as the cluster lets it.
func try(bootstrap, topic, group string, count int) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	writer := connect(bootstrap)
	defer writer.Close()
	if err := writer.Ping(ctx); err != nil {
		tell("X connect", err)
		return
	}
	records := make([]*kgo.Record, count)
	for number := range records {
		records[number] = &kgo.Record{Topic: topic, Value: []byte(strconv.Itoa(number))}
	}
	if err := writer.ProduceSync(ctx, records...).FirstErr(); err != nil {
		tell("X write", err)
	} else {
		tell("W")
	}
	reader := connect(bootstrap, kgo.ConsumeTopics(topic), kgo.ConsumerGroup(group), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer reader.Close()
	for read := 0; read < count; {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			tell("X read", err)
			return
		}
		read += fetches.NumRecords()
	}
	if err := reader.CommitUncommittedOffsets(ctx); err != nil {
		tell("X read", err)
		return
	}
	tell("G")
}

func main() {
	way = connection()
	if os.Args[1] == "try" {
		count, err := strconv.Atoi(os.Args[5])
		check(err)
		try(os.Args[2], os.Args[3], os.Args[4], count)
		return
	}
	ctx := untilEndOfInput()
	if os.Args[1] == "copy" {
		for ctx.Err() == nil {
			if err := copyOnce(ctx, os.Args[2], os.Args[3], os.Args[4], os.Args[5]); err != nil {
				tell("L", os.Args[5], err)
				time.Sleep(200 * time.Millisecond)
			}
		}
		return
	}
	if os.Args[1] == "read" {
		read(ctx, os.Args[2], os.Args[3], os.Args[4])
		return
	}
	if os.Args[1] == "queue" {
		queue(ctx, os.Args[2], os.Args[3], os.Args[4])
		return
	}
	partitions, err := strconv.Atoi(os.Args[4])
	check(err)
	pause, err := strconv.Atoi(os.Args[5])
	check(err)
	write(ctx, os.Args[2], os.Args[3], partitions, time.Duration(pause)*time.Millisecond)
}
