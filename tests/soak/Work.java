// SPDX-License-Identifier: Apache-2.0
//
// Work.java: threads that collect, compress, throw and hold memory outside the heap, by numbers
// of their own; what comes of it is the same at each run.
//
// java Work SECONDS: at least so long, a digest for each round; a line each time it changes,
// which is once.
import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.util.*;
import java.util.concurrent.*;
import java.util.zip.*;

public class Work {
    static final int THREADS = 4, STEPS = 300;

    static byte[] squeeze(byte[] data) throws DataFormatException {
        Deflater deflater = new Deflater();
        Inflater inflater = new Inflater();
        byte[] packed = new byte[data.length + 64], back = new byte[data.length];
        deflater.setInput(data);
        deflater.finish();
        int n = deflater.deflate(packed);
        inflater.setInput(packed, 0, n);
        inflater.inflate(back);
        deflater.end();
        inflater.end();
        if (!Arrays.equals(data, back))
            throw new IllegalStateException("what was compressed isn't the same");
        return Arrays.copyOf(packed, n);
    }

    static byte[] work(int seed) throws Exception {
        Random random = new Random(seed);
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        Map<String, byte[]> kept = new TreeMap<>();
        for (int i = 0; i < STEPS; i++) {
            byte[] data = new byte[random.nextInt(4000)];
            random.nextBytes(data);
            Arrays.fill(data, 0, data.length / 2, (byte) i);
            ByteBuffer outside = ByteBuffer.allocateDirect(data.length);
            outside.put(data).flip();
            kept.put("key" + random.nextInt(50), squeeze(data));
            try {
                digest.update((byte) data[random.nextInt(4000)]);
            } catch (ArrayIndexOutOfBoundsException e) {
                digest.update((byte) 1);    // its stack trace isn't always there
            }
            digest.update(outside);
        }
        kept.values().forEach(digest::update);
        return digest.digest();
    }

    static String round() throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(THREADS);
        List<Future<byte[]>> results = new ArrayList<>();
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < 2 * THREADS; i++) {
            int seed = i;
            results.add(pool.submit(() -> work(seed)));
        }
        for (Future<byte[]> result : results)
            text.append(HexFormat.of().formatHex(result.get(), 0, 4));
        pool.shutdown();
        return text.toString();
    }

    public static void main(String[] args) throws Exception {
        long end = System.nanoTime() + (long) (Double.parseDouble(args[0]) * 1e9);
        String last = "";
        do {
            String now = round();
            if (!now.equals(last))
                System.out.println(now);
            last = now;
        } while (System.nanoTime() < end);
    }
}
