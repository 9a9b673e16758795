import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Prints what Kafka's assignors do in the life of random groups: one line for each rebalance, a JSON object with the
 * assignor, the racks by node, the replicas by topic and partition, the members and the assignment of each. Members
 * stand in the order in which the assignor's HashMap visits them.
 *
 * java -cp "$KAFKA/libs/*" Assignors.java GROUPS
 */
public class Assignors {
    private static final int REBALANCES = 4;

    private final Random random;
    private final Node[] nodes;
    private final boolean equal;
    private final boolean disputes;
    private final boolean memberRacks;
    private final Map<String, List<List<Integer>>> topics = new TreeMap<>();
    private final Map<String, Member> members = new TreeMap<>();
    private int created = 0;
    private int topicsCreated = 0;

    private static class Member {
        String id;
        String instance;
        String rack;
        Set<String> topics = new TreeSet<>();
        List<TopicPartition> owned = new ArrayList<>();
        int generation = -1;
        boolean stale = false;
        ConsumerPartitionAssignor assignor;
    }

    public static void main(String[] args) {
        for (int seed = 0; seed < Integer.parseInt(args[0]); seed++)
            new Assignors(seed).run(seed % 4);
    }

    private Assignors(int seed) {
        random = new Random(seed * 0x9E3779B97F4A7C15L); // small seeds begin alike
        equal = random.nextBoolean();
        disputes = random.nextInt(4) == 0;
        memberRacks = random.nextBoolean();
        nodes = new Node[1 + random.nextInt(5)];
        boolean racks = random.nextInt(4) > 0;
        for (int i = 0; i < nodes.length; i++)
            nodes[i] = new Node(i, "host", 9092, racks && random.nextInt(8) > 0 ? "r" + random.nextInt(3) : null);
        for (int i = random.nextInt(5); i >= 0; i--)
            addTopic();
    }

    private void addTopic() {
        List<List<Integer>> partitions = new ArrayList<>();
        topics.put("t" + topicsCreated++, partitions);
        addPartitions(partitions, 1 + random.nextInt(random.nextBoolean() ? 4 : 12));
    }

    private void addPartitions(List<List<Integer>> partitions, int count) {
        int replication = 1 + random.nextInt(Math.min(3, nodes.length));
        for (int i = 0; i < count; i++) {
            Set<Integer> replicas = new TreeSet<>();
            while (replicas.size() < replication)
                replicas.add(random.nextInt(nodes.length));
            partitions.add(new ArrayList<>(replicas));
        }
    }

    private static ConsumerPartitionAssignor assignor(int kind) {
        return switch (kind) {
            case 0 -> new RangeAssignor();
            case 1 -> new RoundRobinAssignor();
            case 2 -> new StickyAssignor();
            default -> new CooperativeStickyAssignor();
        };
    }

    private void addMember(int kind) {
        Member member = new Member();
        member.id = "consumer-" + created++ + "-" + Integer.toHexString(random.nextInt());
        member.instance = random.nextInt(4) == 0 ? "i" + (99 - created) : null;
        member.rack = memberRacks && random.nextInt(5) > 0 ? "r" + random.nextInt(3) : null;
        member.assignor = assignor(kind);
        subscribe(member);
        members.put(member.id, member);
    }

    private void subscribe(Member member) {
        if (equal && !members.isEmpty()) {
            member.topics = members.values().iterator().next().topics;
            return;
        }
        member.topics = new TreeSet<>();
        List<String> names = new ArrayList<>(topics.keySet());
        Collections.shuffle(names, random);
        member.topics.addAll(names.subList(0, 1 + random.nextInt(names.size())));
        if (random.nextInt(20) == 0)
            member.topics.add("missing");
    }

    private void change(int kind) {
        if (random.nextInt(3) == 0)
            addTopic();
        if (random.nextInt(6) == 0 && topics.size() > 1)
            topics.remove(topics.keySet().iterator().next());
        if (random.nextInt(3) == 0)
            addPartitions(topics.values().iterator().next(), 1 + random.nextInt(3));
        if (random.nextInt(2) == 0 && members.size() > 1)
            members.remove(members.keySet().stream().skip(random.nextInt(members.size())).findFirst().get());
        for (int i = random.nextInt(3); i > 0; i--)
            addMember(kind);
        if (equal && random.nextInt(4) == 0) {
            Set<String> all = new TreeSet<>(topics.keySet());
            members.values().forEach(member -> member.topics = all);
        } else if (!equal) {
            for (Member member : members.values())
                if (!member.stale && random.nextInt(5) == 0)
                    subscribe(member);
        }
        if (disputes)
            dispute();
    }

    /** Lets one member claim a partition of another one, and sometimes in the same generation. */
    private void dispute() {
        List<Member> owners = members.values().stream().filter(m -> !m.owned.isEmpty()).collect(Collectors.toList());
        if (owners.size() < 2)
            return;
        Collections.shuffle(owners, random);
        Member thief = owners.get(0);
        TopicPartition claimed = owners.get(1).owned.get(0);
        if (!thief.topics.contains(claimed.topic()) || thief.owned.contains(claimed))
            return;
        thief.owned = new ArrayList<>(thief.owned);
        thief.owned.add(claimed);
        if (random.nextInt(3) == 0 && mayBeOld(thief))
            thief.generation--;
    }

    /** No member of an old generation owns topics it does not subscribe to: Java would assign them to it, or fail. */
    private static boolean mayBeOld(Member member) {
        return member.owned.stream().allMatch(partition -> member.topics.contains(partition.topic()));
    }

    private void run(int kind) {
        for (int i = random.nextInt(random.nextBoolean() ? 4 : 10); i >= 0; i--)
            addMember(kind);
        for (int generation = 1; generation <= REBALANCES; generation++) {
            if (generation > 1)
                change(kind);
            rebalance(kind, generation);
        }
    }

    private void rebalance(int kind, int generation) {
        Map<String, Subscription> subscriptions = new HashMap<>();
        for (Member member : members.values()) {
            ByteBuffer data = member.assignor.subscriptionUserData(member.topics);
            if (kind == 2 && member.generation >= 0) {
                member.assignor.onAssignment(new Assignment(member.owned),
                    new ConsumerGroupMetadata("g", member.generation, member.id, Optional.ofNullable(member.instance)));
                data = member.assignor.subscriptionUserData(member.topics);
            }
            Subscription subscription = new Subscription(new ArrayList<>(member.topics), data,
                kind == 3 ? member.owned : List.of(), member.generation, Optional.ofNullable(member.rack));
            subscription.setGroupInstanceId(Optional.ofNullable(member.instance));
            subscriptions.put(member.id, subscription);
        }
        List<PartitionInfo> infos = new ArrayList<>();
        topics.forEach((topic, partitions) -> {
            for (int i = 0; i < partitions.size(); i++) {
                Node[] replicas = partitions.get(i).stream().map(id -> nodes[id]).toArray(Node[]::new);
                infos.add(new PartitionInfo(topic, i, replicas[0], replicas, replicas));
            }
        });
        Cluster cluster = new Cluster("c", List.of(nodes), infos, Set.of(), Set.of());
        String before = describe(kind, subscriptions);
        Map<String, Assignment> assigned = assignor(kind).assign(cluster, new GroupSubscription(subscriptions)).groupAssignment();
        List<String> after = new ArrayList<>();
        for (String id : subscriptions.keySet())
            after.add(quoted(id) + ":" + list(assigned.get(id).partitions()));
        System.out.println(before + ",\"assigned\":{" + String.join(",", after) + "}}");
        for (Member member : members.values()) {
            member.stale = random.nextInt(8) == 0 && member.generation >= 0 && mayBeOld(member);
            if (member.stale)
                continue;
            member.owned = new ArrayList<>(assigned.get(member.id).partitions());
            member.generation = generation;
        }
    }

    private String describe(int kind, Map<String, Subscription> subscriptions) {
        List<String> racks = new ArrayList<>();
        for (Node node : nodes)
            racks.add(quoted(node.rack()));
        List<String> lines = new ArrayList<>();
        topics.forEach((topic, partitions) -> lines.add(quoted(topic) + ":" + partitions.toString().replace(" ", "")));
        List<String> described = new ArrayList<>();
        subscriptions.forEach((id, subscription) -> described.add("[" + quoted(id) + ","
            + subscription.topics().stream().map(Assignors::quoted).collect(Collectors.toList()) + ","
            + (subscription.userData() == null ? null : quoted(HexFormat.of().formatHex(subscription.userData().array()))) + ","
            + list(subscription.ownedPartitions()) + "," + subscription.generationId().orElse(-1) + ","
            + quoted(subscription.rackId().orElse(null)) + "," + quoted(subscription.groupInstanceId().orElse(null)) + "]"));
        return "{\"assignor\":" + quoted(assignor(kind).name()) + ",\"racks\":" + racks
            + ",\"topics\":{" + String.join(",", lines) + "},\"members\":[" + String.join(",", described) + "]";
    }

    private static String list(List<TopicPartition> partitions) {
        Set<String> sorted = new TreeSet<>();
        partitions.forEach(p -> sorted.add("[" + quoted(p.topic()) + "," + p.partition() + "]"));
        return "[" + String.join(",", sorted) + "]";
    }

    private static String quoted(String text) {
        return text == null ? "null" : "\"" + text + "\"";
    }
}
