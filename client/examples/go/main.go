// Attention from Go: health, a call small enough to check by hand, a large one in bfloat16, an error and a deadline.
//
// usage: go run . [HOST:PORT], by default ATTEND_ADDRESS, else 127.0.0.1:8001
package main

//go:generate go build -o build/ google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc
//go:generate protoc --plugin=build/protoc-gen-go --plugin=build/protoc-gen-go-grpc --proto_path=proto --go_out=. --go_opt=module=attend/client/examples/go,Mattend/v1/attention.proto=attend/client/examples/go/attendv1 --go-grpc_out=. --go-grpc_opt=module=attend/client/examples/go,Mattend/v1/attention.proto=attend/client/examples/go/attendv1 attend/v1/attention.proto

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"math"
	"os"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	pb "attend/client/examples/go/attendv1"
)

// A float32 tensor.
func floatTensor(shape []int64, elements ...float32) *pb.Tensor {
	tensor := &pb.Tensor{DataType: pb.DataType_DATA_TYPE_FLOAT32, Shape: shape}
	for _, element := range elements {
		tensor.Data = binary.LittleEndian.AppendUint32(tensor.Data, math.Float32bits(element))
	}
	return tensor
}

// The elements of a float32 tensor.
func floats(tensor *pb.Tensor) []float32 {
	elements := make([]float32, len(tensor.Data)/4)
	for i := range elements {
		elements[i] = math.Float32frombits(binary.LittleEndian.Uint32(tensor.Data[4*i:]))
	}
	return elements
}

// A bfloat16 tensor of quarters that rise and fall back: element i is (i mod period - period / 2) / 4. A bfloat16 is
// the upper half of a float32.
func rampTensor(period int, shape ...int64) *pb.Tensor {
	tensor := &pb.Tensor{DataType: pb.DataType_DATA_TYPE_BFLOAT16, Shape: shape}
	for i := 0; i < int(shape[0]*shape[1]*shape[2]*shape[3]); i++ {
		element := float32(i%period-period/2) / 4
		tensor.Data = binary.LittleEndian.AppendUint16(tensor.Data, uint16(math.Float32bits(element)>>16))
	}
	return tensor
}

// The elements of a bfloat16 tensor.
func bfloat16s(tensor *pb.Tensor) []float32 {
	elements := make([]float32, len(tensor.Data)/2)
	for i := range elements {
		elements[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(tensor.Data[2*i:])) << 16)
	}
	return elements
}

func workedExample() *pb.AttendRequest {
	return &pb.AttendRequest{
		Query:   floatTensor([]int64{1, 1, 1, 4}, 1, 0, 0.5, 1),
		Key:     floatTensor([]int64{1, 1, 3, 4}, 1, 0, 0.8, 1, 0, 1, 0.2, 0, 0.2, 0.2, 0.4, 0.1),
		Value:   floatTensor([]int64{1, 1, 3, 4}, 0.9, 0.1, 0.7, 0.8, 0.1, 0.9, 0.2, 0.1, 0.3, 0.3, 0.5, 0.2),
		Results: &pb.ResultSelection{Weights: true},
	}
}

// 32 sequences of 160 tokens, 8 query heads on 2 kv heads, causal: 7.9 MB there, 5.2 MB back.
func largeExample() *pb.AttendRequest {
	return &pb.AttendRequest{
		Query:   rampTensor(31, 32, 8, 160, 64),
		Key:     rampTensor(29, 32, 2, 160, 64),
		Value:   rampTensor(37, 32, 2, 160, 64),
		Options: &pb.AttentionOptions{Causal: pb.CausalAlignment_CAUSAL_ALIGNMENT_TOP_LEFT},
	}
}

// Prints what a failed call says to people and, in its details, to programs.
func printError(name string, err error) {
	failure := status.Convert(err)
	fmt.Printf("%-12s%v: %s\n", name, failure.Code(), failure.Message())
	for _, detail := range failure.Details() {
		switch detail := detail.(type) {
		case *errdetails.BadRequest:
			fmt.Println("field      ", detail.FieldViolations[0].Field)
		case *errdetails.ErrorInfo:
			fmt.Println("value      ", detail.Metadata["value"])
			fmt.Println("limit      ", detail.Metadata["limit"])
		}
	}
}

func main() {
	address := "127.0.0.1:8001"
	if len(os.Args) > 1 {
		address = os.Args[1]
	} else if variable := os.Getenv("ATTEND_ADDRESS"); variable != "" {
		address = variable
	}
	// Without MaxCallRecvMsgSize no answer may be longer than 4 MB.
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)))
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	client := pb.NewAttentionServiceClient(connection)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()

	health, err := grpc_health_v1.NewHealthClient(connection).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("health     ", health.Status)

	answer, err := client.Attend(ctx, workedExample())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("weights     %.4f\n", floats(answer.Weights))
	fmt.Printf("output      %.4f\n", floats(answer.Output))

	large := largeExample()
	answer, err = client.Attend(ctx, large)
	if err != nil {
		log.Fatal(err)
	}
	elements, sum := bfloat16s(answer.Output), 0.0
	for _, element := range elements {
		sum += math.Abs(float64(element))
	}
	fmt.Println("large shape", answer.Output.Shape)
	fmt.Printf("large mean  %.6f\n", sum/float64(len(elements)))
	fmt.Printf("large last  %.4f\n", elements[len(elements)-4:])

	wrong := workedExample()
	wrong.Options = &pb.AttentionOptions{KeyLengths: []int64{4}} // there are 3 keys
	_, err = client.Attend(ctx, wrong)
	printError("error", err)

	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	_, err = client.Attend(short, large)
	printError("deadline", err)
}
