// A client in Go that a test drives, by RocketMQ's own rocketmq-client-go:
//
//	go-client send <nameserver>
//	go-client consume <nameserver> <topic> <group> <tags>
//
// Both end when their input does. What is asked and told is JSON, one object in a line, as
// tests/interop/client_process.py declares it; the log goes to the standard error.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

// A consumer refuses a message with this tag once, to have it again.
const refusedOnce = "again"

// One line may hold the largest message that the tests send.
const lineBytesMax = 1 << 20

const commitWait = 5 * time.Second

type order struct {
	Topic string   `json:"topic"`
	Tags  string   `json:"tags"`
	Keys  []string `json:"keys"`
	Body  []byte   `json:"body"` // base64, as encoding/json has it for bytes
}

type receipt struct {
	Status      string `json:"status"`
	UniqueID    string `json:"unique_id"`
	OffsetID    string `json:"offset_id"`
	Broker      string `json:"broker"`
	QueueID     int    `json:"queue_id"`
	QueueOffset int64  `json:"queue_offset"`
}

type delivery struct {
	Topic          string `json:"topic"`
	Tags           string `json:"tags"`
	Keys           string `json:"keys"`
	Body           []byte `json:"body"`
	UniqueID       string `json:"unique_id"`
	OffsetID       string `json:"offset_id"`
	QueueID        int    `json:"queue_id"`
	QueueOffset    int64  `json:"queue_offset"`
	ReconsumeTimes int32  `json:"reconsume_times"`
}

var statuses = map[primitive.SendStatus]string{
	primitive.SendOK:                "SEND_OK",
	primitive.SendFlushDiskTimeout:  "FLUSH_DISK_TIMEOUT",
	primitive.SendFlushSlaveTimeout: "FLUSH_SLAVE_TIMEOUT",
	primitive.SendSlaveNotAvailable: "SLAVE_NOT_AVAILABLE",
}

func main() {
	rlog.SetLogLevel("warn")
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) == 2 && arguments[0] == "send" {
		return send(arguments[1])
	}
	if len(arguments) == 5 && arguments[0] == "consume" {
		return consume(arguments[1], arguments[2], arguments[3], arguments[4])
	}
	return fmt.Errorf("usage: send <nameserver> | consume <nameserver> <topic> <group> <tags>")
}

func send(nameserver string) error {
	sender, err := rocketmq.NewProducer(
		producer.WithNsResolver(primitive.NewPassthroughResolver([]string{nameserver})),
		producer.WithGroupName("go-senders"),
	)
	if err != nil {
		return err
	}
	if err := sender.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, lineBytesMax)
	for lines.Scan() {
		if err := sendOne(sender, lines.Bytes()); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return sender.Shutdown()
}

func sendOne(sender rocketmq.Producer, line []byte) error {
	var asked order
	if err := json.Unmarshal(line, &asked); err != nil {
		return err
	}
	message := primitive.NewMessage(asked.Topic, asked.Body)
	message.WithTag(asked.Tags).WithKeys(asked.Keys)
	result, err := sender.SendSync(context.Background(), message)
	if err != nil {
		return err
	}
	return tell(receipt{
		Status:      statuses[result.Status],
		UniqueID:    result.MsgID,
		OffsetID:    result.OffsetMsgID,
		Broker:      result.MessageQueue.BrokerName,
		QueueID:     result.MessageQueue.QueueId,
		QueueOffset: result.QueueOffset,
	})
}

func consume(nameserver, topic, group, tags string) error {
	receiver, err := rocketmq.NewPushConsumer(
		consumer.WithNsResolver(primitive.NewPassthroughResolver([]string{nameserver})),
		consumer.WithGroupName(group),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	)
	if err != nil {
		return err
	}
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: tags}
	if err := receiver.Subscribe(topic, selector, take); err != nil {
		return err
	}
	if err := receiver.Start(); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	waitForCommits(receiver)
	return receiver.Shutdown()
}

func take(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	for _, message := range messages {
		told := delivery{
			Topic:          message.Topic,
			Tags:           message.GetTags(),
			Keys:           message.GetKeys(),
			Body:           message.Body,
			UniqueID:       message.GetProperty(primitive.PropertyUniqueClientMessageIdKeyIndex),
			OffsetID:       message.OffsetMsgId,
			QueueID:        message.Queue.QueueId,
			QueueOffset:    message.QueueOffset,
			ReconsumeTimes: message.ReconsumeTimes,
		}
		if err := tell(told); err != nil {
			return consumer.ConsumeRetryLater, err
		}
		if told.Tags == refusedOnce && told.ReconsumeTimes == 0 {
			return consumer.ConsumeRetryLater, nil
		}
	}
	return consumer.ConsumeSuccess, nil
}

// The client counts a message as consumed some time after take returned, and forgets the count if
// it is shut down before. A queue that ends with messages of other tags seems behind for longer.
func waitForCommits(receiver rocketmq.PushConsumer) {
	deadline := time.Now().Add(commitWait)
	for lag(receiver) > 0 && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
}

func lag(receiver rocketmq.PushConsumer) int64 {
	var sum int64
	for _, behind := range receiver.GetOffsetDiffMap() {
		sum += behind
	}
	return sum
}

// Messages of several queues are taken at once, and each line must stay whole.
var telling sync.Mutex

func tell(line interface{}) error {
	telling.Lock()
	defer telling.Unlock()
	return json.NewEncoder(os.Stdout).Encode(line)
}
