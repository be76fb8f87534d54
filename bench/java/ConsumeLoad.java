import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.time.Instant;
import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Java's push consumer for bench/consumers.py: a line of standard input says what to consume.
 *
 * <pre>
 * asked:  nameserver group topic messages skipped
 * said:   started
 *         consumed microseconds cpu-microseconds p50-microseconds p99-microseconds
 * </pre>
 *
 * Time and CPU time of the process run from the first message to the last. A latency is the time
 * from the stamp in the first eight bytes of a body, nanoseconds since 1970; the first messages are
 * skipped.
 */
public final class ConsumeLoad {
    private final int count;
    private final int skipped;
    private final long[] latencies;
    private final AtomicInteger seen = new AtomicInteger();
    private final CountDownLatch ended = new CountDownLatch(1);
    private volatile long beganNs;
    private volatile long beganCpuNs;
    private volatile long tookNs;
    private volatile long cpuNs;

    private ConsumeLoad(int count, int skipped) {
        this.count = count;
        this.skipped = skipped;
        this.latencies = new long[count];
    }

    public static void main(String[] arguments) {
        try {
            BufferedReader asked = new BufferedReader(new InputStreamReader(System.in));
            for (String line = asked.readLine(); line != null; line = asked.readLine()) {
                String[] words = line.split(" ");
                int count = Integer.parseInt(words[3]);
                new ConsumeLoad(count, Integer.parseInt(words[4])).run(words);
            }
            System.exit(0);
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1); // threads of the consumer would keep it alive
        }
    }

    private void run(String[] words) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(words[1]);
        consumer.setNamesrvAddr(words[0]);
        consumer.setInstanceName(words[1]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(words[2], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                take(message);
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        System.out.println("started");
        ended.await();
        consumer.shutdown();
        long[] counted = Arrays.copyOfRange(latencies, skipped, count);
        Arrays.sort(counted);
        System.out.println("consumed " + tookNs / 1000 + " " + cpuNs / 1000 + " "
                + counted[counted.length / 2] / 1000 + " "
                + counted[counted.length * 99 / 100] / 1000);
    }

    private void take(MessageExt message) {
        Instant now = Instant.now();
        int number = seen.getAndIncrement();
        if (number == 0) {
            beganNs = System.nanoTime();
            beganCpuNs = cpu();
        }
        if (number < count) {
            long nowNs = now.getEpochSecond() * 1_000_000_000L + now.getNano();
            latencies[number] = nowNs - ByteBuffer.wrap(message.getBody()).getLong();
        }
        if (number == count - 1) {
            tookNs = System.nanoTime() - beganNs;
            cpuNs = cpu() - beganCpuNs;
            ended.countDown();
        }
    }

    private static long cpu() {
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
                .getProcessCpuTime();
    }
}
