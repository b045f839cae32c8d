package java.lang;

import jdk.internal.misc.Unsafe;

/**
 * Counts events of Java code in the counters that the sampler reads.
 *
 * <p>The class is in java.lang because code of every module can call it there. Opaque access is one plain instruction
 * that the compilers neither remove nor move out of a loop.
 */
public final class UnperturbedCounts {
    private static final Unsafe MEMORY = Unsafe.getUnsafe();

    private UnperturbedCounts() {}

    public static void plain(long counter) {
        MEMORY.putLongOpaque(null, counter, MEMORY.getLongOpaque(null, counter) + 1);
    }

    public static void exact(long counter) {
        MEMORY.getAndAddLong(null, counter, 1);
    }
}
