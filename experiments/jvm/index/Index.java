import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.zip.Deflater;

/** A search engine in memory: it indexes documents, compresses them, and answers queries. */
public class Index {
    private final Map<String, List<Integer>> postings = new HashMap<>();
    private final List<byte[]> documents = new ArrayList<>();

    static String word(Random random) {
        int rank = (int) Math.pow(20_000, random.nextDouble()); // few words are frequent, as in texts
        return "w" + rank;
    }

    static String document(Random random) {
        StringBuilder text = new StringBuilder();
        int words = 200 + random.nextInt(400);
        for (int i = 0; i < words; i++) text.append(word(random)).append(' ');
        return text.toString();
    }

    void add(String text) {
        int number = documents.size();
        for (String word : text.split(" ")) {
            List<Integer> places = postings.computeIfAbsent(word, unused -> new ArrayList<>());
            if (places.isEmpty() || places.get(places.size() - 1) != number) places.add(number);
        }
        documents.add(packed(text));
    }

    private static byte[] packed(String text) {
        Deflater deflater = new Deflater(1);
        deflater.setInput(text.getBytes());
        deflater.finish();
        byte[] room = new byte[text.length() + 100];
        byte[] packed = Arrays.copyOf(room, deflater.deflate(room));
        deflater.end();
        return packed;
    }

    /** Returns the documents that hold all of some words. */
    List<Integer> find(String... words) {
        List<Integer> found = null;
        for (String word : words) {
            List<Integer> places = postings.getOrDefault(word, List.of());
            found = found == null ? new ArrayList<>(places) : both(found, places);
        }
        return found;
    }

    private static List<Integer> both(List<Integer> one, List<Integer> other) {
        List<Integer> common = new ArrayList<>();
        for (int i = 0, j = 0; i < one.size() && j < other.size();) {
            int order = Integer.compare(one.get(i), other.get(j));
            if (order == 0) common.add(one.get(i));
            if (order <= 0) i++;
            if (order >= 0) j++;
        }
        return common;
    }

    /** Packs all documents again: work of its own that a real engine does from time to time. */
    void compact() {
        for (int round = 0; round < 3; round++)
            for (int i = 0; i < documents.size(); i++) documents.set(i, documents.get(i).clone());
        for (List<Integer> places : postings.values()) ((ArrayList<Integer>) places).trimToSize();
        long sum = 0;
        for (int round = 0; round < 200; round++)
            for (byte[] packed : documents) for (int i = 0; i < packed.length; i += 16) sum += packed[i];
        if (sum == 42) System.out.println();
    }

    public static void main(String[] arguments) {
        int rounds = Integer.parseInt(arguments[0]);
        // With a second argument, one round ends with a compaction: another round in each run.
        int compaction = arguments.length > 1 ? 2 + new Random().nextInt(rounds - 4) : -1;
        Index index = new Index();
        Random random = new Random(1);
        long sum = 0;
        for (int round = 0; round < rounds; round++) {
            for (int i = 0; i < 300; i++) index.add(document(random));
            if (round == compaction) index.compact();
            for (int i = 0; i < 600; i++) sum += index.find(word(random), word(random), word(random)).size();
        }
        long bytes = index.documents.stream().mapToLong(packed -> packed.length).sum();
        System.out.println(index.documents.size() + " documents, " + bytes + " bytes, " + sum + " found");
    }
}
