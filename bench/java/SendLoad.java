import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/**
 * Java's producer under load, for bench/senders.py: a line of standard input says what to send, a line
 * of standard output says that all of it is stored.
 *
 * <pre>
 * arguments: topic, bytes of a body
 * asked:     nameserver frames-in-flight messages-of-a-frame gathered threads messages
 * said:      stored sends-that-were-refused
 * </pre>
 *
 * With threads (true or false, as gathered is), each of them sends by the blocking call; without,
 * all is sent by callbacks. A send that the broker refused is made again, as an application would.
 */
public final class SendLoad {
    private static final int TIMEOUT_MS = 20_000;

    private final DefaultMQProducer producer;
    private final String topic;
    private final byte[] body;
    private final AtomicLong refused = new AtomicLong();
    private final AtomicReference<Throwable> failure = new AtomicReference<>();

    private SendLoad(DefaultMQProducer producer, String topic, byte[] body) {
        this.producer = producer;
        this.topic = topic;
        this.body = body;
    }

    public static void main(String[] arguments) {
        try {
            serve(arguments);
            System.exit(0); // its own end would wait for threads that look up every three seconds
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1); // threads of the producers would keep it alive
        }
    }

    private static void serve(String[] arguments) throws Exception {
        byte[] body = new byte[Integer.parseInt(arguments[1])];
        for (int i = 0; i < body.length; i++) {
            body[i] = (byte) i;
        }
        BufferedReader asked = new BufferedReader(new InputStreamReader(System.in));
        Map<String, DefaultMQProducer> producers = new HashMap<>();
        for (String line = asked.readLine(); line != null; line = asked.readLine()) {
            String[] words = line.split(" ");
            String key = words[0] + words[3];
            if (!producers.containsKey(key)) {
                producers.put(key, start(words[0], Boolean.parseBoolean(words[3]), key));
            }
            SendLoad load = new SendLoad(producers.get(key), arguments[0], body);
            int inFlight = Integer.parseInt(words[1]);
            int together = Integer.parseInt(words[2]);
            int count = Integer.parseInt(words[5]);
            if (Boolean.parseBoolean(words[4])) {
                load.byThreads(inFlight, count);
            } else {
                load.byCallbacks(inFlight, together, count / together);
            }
            System.out.println("stored " + load.refused.get());
        }
    }

    private static DefaultMQProducer start(String nameserver, boolean gathers, String name)
            throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("bench");
        producer.setNamesrvAddr(nameserver);
        producer.setInstanceName(name.replaceAll("[^A-Za-z0-9]", "-"));
        producer.setSendMsgTimeout(TIMEOUT_MS);
        producer.setAutoBatch(gathers);
        producer.start();
        return producer;
    }

    private Message message() {
        return new Message(topic, "paid", body);
    }

    private void byThreads(int inFlight, int count) throws Exception {
        AtomicLong unsent = new AtomicLong(count);
        List<Thread> threads = new ArrayList<>(inFlight);
        for (int i = 0; i < inFlight; i++) {
            Thread thread = new Thread(() -> oneByOne(unsent));
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        check();
    }

    private void oneByOne(AtomicLong unsent) {
        while (unsent.decrementAndGet() >= 0) {
            try {
                while (!isStored()) {
                    refused.incrementAndGet();
                }
            } catch (Exception error) {
                failure.set(error);
                return;
            }
        }
    }

    private boolean isStored() throws Exception {
        try {
            return producer.send(message()).getSendStatus() == SendStatus.SEND_OK;
        } catch (MQBrokerException error) {
            return false;
        }
    }

    private void check() {
        if (failure.get() != null) {
            throw new IllegalStateException("a send failed", failure.get());
        }
    }

    private void byCallbacks(int inFlight, int together, int frames) throws Exception {
        Semaphore permits = new Semaphore(inFlight);
        AtomicLong unstored = new AtomicLong(frames);
        while (unstored.get() > 0) {
            // What was refused is counted as unstored still, and sent in the next turn.
            for (long left = unstored.get(); left > 0; left--) {
                permits.acquire();
                send(together, new Stored(permits, unstored));
            }
            permits.acquire(inFlight); // all have been answered
            permits.release(inFlight);
            check();
        }
    }

    private void send(int together, SendCallback stored) throws Exception {
        if (together == 1) {
            producer.send(message(), stored);
            return;
        }
        List<Message> messages = new ArrayList<>(together);
        for (int i = 0; i < together; i++) {
            messages.add(message());
        }
        producer.send(messages, stored);
    }

    private final class Stored implements SendCallback {
        private final Semaphore permits;
        private final AtomicLong unstored;

        Stored(Semaphore permits, AtomicLong unstored) {
            this.permits = permits;
            this.unstored = unstored;
        }

        @Override
        public void onSuccess(SendResult result) {
            unstored.decrementAndGet();
            permits.release();
        }

        @Override
        public void onException(Throwable error) {
            refused.incrementAndGet();
            if (!(error instanceof MQBrokerException)) {
                failure.set(error);
            }
            permits.release();
        }
    }
}
