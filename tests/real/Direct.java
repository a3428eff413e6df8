/* SPDX-License-Identifier: Apache-2.0
 *
 * Direct: a Java program whose threads compress, throw and collect garbage; it keeps direct
 * buffers, which live in the native heap, as many as it's told to.
 *
 * READY
 * keep N SIZE: "ASKED USED": N buffers are kept; so many bytes were asked for, and by so
 *	much the JVM's count of direct buffers grew.
 * check: "ok ROUNDS" once each thread went on since the last check, or "BAD what".
 */
import java.lang.management.BufferPoolMXBean;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.Scanner;
import java.util.zip.Deflater;
import java.util.zip.Inflater;

public class Direct {
	static final long[] rounds = new long[3];
	static volatile String wrong;
	static final List<ByteBuffer> kept = new ArrayList<>();

	static void compress(long i) throws Exception {
		byte[] data = new byte[20000], out = new byte[40000], back = new byte[20000];
		Deflater deflater = new Deflater();
		Inflater inflater = new Inflater();
		int n;

		new Random(i).nextBytes(data);
		deflater.setInput(data);
		deflater.finish();
		n = deflater.deflate(out);
		deflater.end();
		inflater.setInput(out, 0, n);
		if (inflater.inflate(back) != back.length || !Arrays.equals(data, back))
			wrong = "what was inflated isn't what was deflated";
		inflater.end();
	}

	static int descend(int depth) {
		if (depth == 0)
			throw new IllegalStateException("bottom");
		return descend(depth - 1) + 1;
	}

	static void fail(long i) {
		try {
			descend((int)(i % 200));
			wrong = "nothing was thrown";
		} catch (IllegalStateException e) {
			if (!e.getMessage().equals("bottom"))
				wrong = "an exception's text changed";
		}
		/* A null that the JVM finds by a fault. */
		try {
			Object nothing = i < 0 ? "" : null;

			nothing.hashCode();
			wrong = "null has a hash";
		} catch (NullPointerException e) {
			;
		}
	}

	static void sleep(long i) throws Exception {
		long before = System.nanoTime();

		Thread.sleep(3);
		if (System.nanoTime() - before < 3000000)
			wrong = "sleep() was too short";
		Thread child = new Thread(() -> compress1());
		child.start();
		child.join();
	}

	static void compress1() {
		try {
			compress(1);
		} catch (Exception e) {
			wrong = e.toString();
		}
	}

	static void work(int slot) {
		try {
			while (true) {
				switch (slot) {
				case 0: compress(rounds[slot]); break;
				case 1: fail(rounds[slot]); break;
				default: sleep(rounds[slot]);
				}
				rounds[slot]++;
			}
		} catch (Throwable e) {
			wrong = e.toString();
		}
	}

	static long used() {
		for (BufferPoolMXBean pool :
		     ManagementFactory.getPlatformMXBeans(BufferPoolMXBean.class))
			if (pool.getName().equals("direct"))
				return pool.getMemoryUsed();
		return 0;
	}

	public static void main(String[] args) throws Exception {
		Scanner in = new Scanner(System.in);

		for (int i = 0; i < rounds.length; i++) {
			int slot = i;

			new Thread(() -> work(slot)).start();
		}
		System.out.println("READY");
		while (in.hasNextLine()) {
			String[] words = in.nextLine().split(" ");

			if (words[0].equals("keep")) {
				int n = Integer.parseInt(words[1]), size = Integer.parseInt(words[2]);
				long before = used();

				for (int i = 0; i < n; i++)
					kept.add(ByteBuffer.allocateDirect(size));
				System.out.println((long)n * size + " " + (used() - before));
				continue;
			}
			long[] before = rounds.clone();
			long sum = 0;

			for (int i = 0; i < rounds.length; i++) {
				while (rounds[i] == before[i] && wrong == null)
					Thread.sleep(1);
				sum += rounds[i];
			}
			System.out.println(wrong != null ? "BAD " + wrong : "ok " + sum);
		}
		System.exit(0);
	}
}
