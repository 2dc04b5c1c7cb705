package dev.attend.example;

import com.google.protobuf.Any;
import com.google.protobuf.ByteString;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.UnsafeByteOperations;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.Status;
import dev.attend.v1.AttendRequest;
import dev.attend.v1.AttendResponse;
import dev.attend.v1.AttentionOptions;
import dev.attend.v1.AttentionServiceGrpc;
import dev.attend.v1.CausalAlignment;
import dev.attend.v1.DataType;
import dev.attend.v1.ResultSelection;
import dev.attend.v1.Tensor;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.StatusRuntimeException;
import io.grpc.health.v1.HealthCheckRequest;
import io.grpc.health.v1.HealthGrpc;
import io.grpc.protobuf.StatusProto;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.StringJoiner;
import java.util.concurrent.TimeUnit;

/**
 * Attention from Java: health, a call small enough to check by hand, a large one in bfloat16, an error and a deadline.
 *
 * <p>usage: mvn compile exec:java -Dexec.args=HOST:PORT, by default ATTEND_ADDRESS, else 127.0.0.1:8001
 */
public final class Main {
  private static Tensor floatTensor(List<Long> shape, float... elements) {
    ByteBuffer data = ByteBuffer.allocate(4 * elements.length).order(ByteOrder.LITTLE_ENDIAN);
    data.asFloatBuffer().put(elements);
    return tensor(DataType.DATA_TYPE_FLOAT32, shape, data);
  }

  /**
   * A bfloat16 tensor of quarters that rise and fall back: element i is (i mod period - period / 2) / 4. A bfloat16
   * is the upper half of a float32.
   */
  private static Tensor rampTensor(int period, List<Long> shape) {
    int count = (int) shape.stream().mapToLong(Long::longValue).reduce(1, (product, length) -> product * length);
    ByteBuffer data = ByteBuffer.allocate(2 * count).order(ByteOrder.LITTLE_ENDIAN);
    for (int i = 0; i < count; ++i) {
      float element = (i % period - period / 2) / 4f;
      data.putShort(2 * i, (short) (Float.floatToIntBits(element) >>> 16));
    }
    return tensor(DataType.DATA_TYPE_BFLOAT16, shape, data);
  }

  private static Tensor tensor(DataType type, List<Long> shape, ByteBuffer data) {
    // Without a copy, for the buffer stays as it is.
    ByteString bytes = UnsafeByteOperations.unsafeWrap(data);
    return Tensor.newBuilder().setDataType(type).addAllShape(shape).setData(bytes).build();
  }

  private static float[] floats(Tensor tensor) {
    float[] elements = new float[tensor.getData().size() / 4];
    bytes(tensor).asFloatBuffer().get(elements);
    return elements;
  }

  private static float[] bfloat16s(Tensor tensor) {
    float[] elements = new float[tensor.getData().size() / 2];
    ByteBuffer data = bytes(tensor);
    for (int i = 0; i < elements.length; ++i) {
      elements[i] = Float.intBitsToFloat(data.getShort(2 * i) << 16);
    }
    return elements;
  }

  private static ByteBuffer bytes(Tensor tensor) {
    return tensor.getData().asReadOnlyByteBuffer().order(ByteOrder.LITTLE_ENDIAN);
  }

  private static AttendRequest workedExample() {
    List<Long> shape = List.of(1L, 1L, 3L, 4L);
    return AttendRequest.newBuilder()
        .setQuery(floatTensor(List.of(1L, 1L, 1L, 4L), 1, 0, 0.5f, 1))
        .setKey(floatTensor(shape, 1, 0, 0.8f, 1, 0, 1, 0.2f, 0, 0.2f, 0.2f, 0.4f, 0.1f))
        .setValue(floatTensor(shape, 0.9f, 0.1f, 0.7f, 0.8f, 0.1f, 0.9f, 0.2f, 0.1f, 0.3f, 0.3f, 0.5f, 0.2f))
        .setResults(ResultSelection.newBuilder().setWeights(true))
        .build();
  }

  /** 32 sequences of 160 tokens, 8 query heads on 2 kv heads, causal: 7.9 MB there, 5.2 MB back. */
  private static AttendRequest largeExample() {
    return AttendRequest.newBuilder()
        .setQuery(rampTensor(31, List.of(32L, 8L, 160L, 64L)))
        .setKey(rampTensor(29, List.of(32L, 2L, 160L, 64L)))
        .setValue(rampTensor(37, List.of(32L, 2L, 160L, 64L)))
        .setOptions(AttentionOptions.newBuilder().setCausal(CausalAlignment.CAUSAL_ALIGNMENT_TOP_LEFT))
        .build();
  }

  private static void print(String name, Object value) {
    System.out.printf("%-12s%s%n", name, value);
  }

  private static String text(float... elements) {
    StringJoiner text = new StringJoiner(" ");
    for (float element : elements) {
      text.add(String.format(Locale.ROOT, "%.4f", element));
    }
    return text.toString();
  }

  private static void printLargeOutput(Tensor output) {
    float[] elements = bfloat16s(output);
    double sum = 0;
    for (float element : elements) {
      sum += Math.abs(element);
    }
    print("large shape", output.getShapeList());
    print("large mean", String.format(Locale.ROOT, "%.6f", sum / elements.length));
    print("large last", text(Arrays.copyOfRange(elements, elements.length - 4, elements.length)));
  }

  /** Prints what a failed call says to people and, in its details, to programs. */
  private static void printError(String name, StatusRuntimeException failure) throws InvalidProtocolBufferException {
    print(name, failure.getMessage());
    Status status = StatusProto.fromThrowable(failure);
    for (Any detail : status.getDetailsList()) {
      if (detail.is(BadRequest.class)) {
        print("field", detail.unpack(BadRequest.class).getFieldViolations(0).getField());
      } else if (detail.is(ErrorInfo.class)) {
        ErrorInfo info = detail.unpack(ErrorInfo.class);
        print("value", info.getMetadataOrDefault("value", ""));
        print("limit", info.getMetadataOrDefault("limit", ""));
      }
    }
  }

  private static void run(ManagedChannel channel) throws InvalidProtocolBufferException {
    // A stub's deadline begins when it is set: one for each call.
    HealthGrpc.HealthBlockingStub health = HealthGrpc.newBlockingStub(channel);
    AttentionServiceGrpc.AttentionServiceBlockingStub attention = AttentionServiceGrpc.newBlockingStub(channel);
    HealthCheckRequest everything = HealthCheckRequest.getDefaultInstance();
    print("health", health.withDeadlineAfter(30, TimeUnit.SECONDS).check(everything).getStatus());

    AttendResponse answer = attention.withDeadlineAfter(30, TimeUnit.SECONDS).attend(workedExample());
    print("weights", text(floats(answer.getWeights())));
    print("output", text(floats(answer.getOutput())));

    AttendRequest large = largeExample();
    printLargeOutput(attention.withDeadlineAfter(30, TimeUnit.SECONDS).attend(large).getOutput());

    AttentionOptions fourKeys = AttentionOptions.newBuilder().addKeyLengths(4).build(); // there are 3
    AttendRequest wrong = workedExample().toBuilder().setOptions(fourKeys).build();
    try {
      attention.withDeadlineAfter(30, TimeUnit.SECONDS).attend(wrong);
    } catch (StatusRuntimeException failure) {
      printError("error", failure);
    }
    try {
      attention.withDeadlineAfter(1, TimeUnit.MILLISECONDS).attend(large);
    } catch (StatusRuntimeException failure) {
      printError("deadline", failure);
    }
  }

  public static void main(String[] arguments) throws InvalidProtocolBufferException, InterruptedException {
    String address = System.getenv().getOrDefault("ATTEND_ADDRESS", "127.0.0.1:8001");
    if (arguments.length > 0) {
      address = arguments[0];
    }
    // Without maxInboundMessageSize no answer may be longer than 4 MB.
    ManagedChannel channel =
        ManagedChannelBuilder.forTarget(address).usePlaintext().maxInboundMessageSize(Integer.MAX_VALUE).build();
    try {
      run(channel);
    } finally {
      channel.shutdownNow().awaitTermination(5, TimeUnit.SECONDS);
    }
  }
}
