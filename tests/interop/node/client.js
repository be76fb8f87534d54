// A client in Node that a test drives, by the package ali-ons:
//
//     node client.js send <nameserver>
//     node client.js consume <nameserver> <topic> <group> <tags>
//
// Both end when their input does. What is asked and told is JSON, one object in a line, as
// tests/interop/client_process.py declares it; the log goes to the standard error.
'use strict';

const readline = require('readline');
const { Consumer, Message, Producer } = require('ali-ons');

// A consumer refuses a message with this tag once, to have it again.
const REFUSED_ONCE = 'again';

// Only the standard error may have the log: every line of the output is an answer.
const logger = {
  debug() {},
  info() {},
  warn: (...words) => console.error(...words),
  error: (...words) => console.error(...words),
};

function options(nameserver) {
  return {
    nameSrv: nameserver,
    // For looking nameservers up over HTTP; the package insists on one even when told the address.
    httpclient: {},
    clientIP: '127.0.0.1',
    // The topic of a group's retries appears after its first heartbeat: look for it soon.
    pollNameServerInteval: 500,
    rebalanceInterval: 500,
    logger,
  };
}

function tell(line) {
  process.stdout.write(JSON.stringify(line) + '\n');
}

function complain(error) {
  console.error(error);
}

async function send(nameserver) {
  const producer = new Producer({ ...options(nameserver), producerGroup: 'node-senders' });
  producer.on('error', complain);
  await producer.ready();
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const asked = JSON.parse(line);
    const message = new Message(asked.topic, asked.tags, Buffer.from(asked.body, 'base64'));
    message.keys = asked.keys;
    const result = await producer.send(message);
    tell({
      status: result.sendStatus,
      unique_id: '', // the broker makes it, and does not tell
      offset_id: result.msgId,
      broker: result.messageQueue.brokerName,
      queue_id: Number(result.messageQueue.queueId),
      queue_offset: result.queueOffset,
    });
  }
  await producer.close();
}

async function consume(nameserver, topic, group, tags) {
  const consumer = new Consumer({
    ...options(nameserver),
    consumerGroup: group,
    consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
  });
  consumer.on('error', complain);
  consumer.subscribe(topic, tags, async message => {
    tell({
      topic: message.topic,
      tags: message.tags,
      keys: message.keys,
      body: message.body.toString('base64'),
      unique_id: message.properties.UNIQ_KEY,
      offset_id: message.msgId,
      queue_id: message.queueId,
      queue_offset: message.queueOffset,
      reconsume_times: message.reconsumeTimes,
    });
    const refused = message.tags === REFUSED_ONCE && message.reconsumeTimes === 0;
    return refused ? Consumer.ACTION_RETRY : undefined;
  });
  await consumer.ready();
  for await (const line of process.stdin.resume()) {
    void line;
  }
  await consumer.close();
}

async function main([ role, ...rest ]) {
  if (role === 'send' && rest.length === 1) {
    await send(...rest);
  } else if (role === 'consume' && rest.length === 4) {
    await consume(...rest);
  } else {
    throw new Error('usage: send <nameserver> | consume <nameserver> <topic> <group> <tags>');
  }
}

// The package keeps timers that nothing ends: without an exit the process would stay.
main(process.argv.slice(2)).then(
  () => process.exit(0),
  error => {
    complain(error);
    process.exit(1);
  },
);
