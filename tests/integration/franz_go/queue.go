package main

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// verdictOf decides by the value's first word: a bad record is rejected, a second one is released when it comes for the first time.
func verdictOf(record *kgo.Record) (string, kgo.AckStatus) {
	switch kind, _, _ := strings.Cut(string(record.Value), "-"); {
	case kind == "bad":
		return "reject", kgo.AckReject
	case kind == "second" && record.DeliveryCount() == 1:
		return "release", kgo.AckRelease
	}
	return "accept", kgo.AckAccept
}

// queue is a member of a share group: it decides about each record, and waits for what the cluster says of it before it polls again.
func queue(ctx context.Context, bootstrap, topic, group string) {
	var guard sync.Mutex
	refused := map[int32]error{}
	note := func(_ *kgo.Client, results kgo.ShareAckResults) {
		guard.Lock()
		defer guard.Unlock()
		for _, result := range results {
			if result.Err != nil {
				refused[result.Partition] = result.Err
			}
		}
	}
	client := connect(bootstrap, kgo.ConsumeTopics(topic), kgo.ShareGroup(group), kgo.ShareMaxRecords(10), kgo.ShareAckCallback(note))
	for ctx.Err() == nil {
		fetches := client.PollRecords(ctx, 10)
		verdicts := map[*kgo.Record]string{}
		fetches.EachRecord(func(record *kgo.Record) {
			verdict, status := verdictOf(record)
			verdicts[record] = verdict
			tell("R", record.Partition, record.Offset, record.DeliveryCount(), string(record.Value))
			record.Ack(status)
		})
		flushed, cancel := context.WithTimeout(context.Background(), patience)
		err := client.FlushAcks(flushed)
		cancel()
		guard.Lock()
		for record, verdict := range verdicts {
			told := err
			if told == nil {
				told = refused[record.Partition]
			}
			if told == nil {
				tell("K", record.Partition, record.Offset, verdict)
			} else {
				tell("F", record.Partition, record.Offset, verdict, told)
			}
		}
		clear(refused)
		guard.Unlock()
		time.Sleep(20 * time.Millisecond)
	}
	client.Close()
}
