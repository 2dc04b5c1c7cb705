//! Attention from Rust: health, a call small enough to check by hand, a large one in bfloat16, an error and a deadline.
//!
//! usage: cargo run [HOST:PORT], by default ATTEND_ADDRESS, else 127.0.0.1:8001

use std::error::Error;
use std::time::Duration;

use attend::attention_service_client::AttentionServiceClient;
use attend::{AttendRequest, AttentionOptions, CausalAlignment, DataType, ResultSelection, Tensor};
use tonic::transport::Endpoint;
use tonic::{Request, Status};
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::HealthCheckRequest;
use tonic_types::StatusExt;

mod attend {
    tonic::include_proto!("attend.v1");
}

fn tensor(data_type: DataType, shape: &[i64], data: Vec<u8>) -> Option<Tensor> {
    Some(Tensor { data_type: data_type.into(), shape: shape.to_vec(), data })
}

fn float_tensor(shape: &[i64], elements: &[f32]) -> Option<Tensor> {
    tensor(DataType::Float32, shape, elements.iter().flat_map(|element| element.to_le_bytes()).collect())
}

/// A bfloat16 tensor of quarters that rise and fall back: element i is (i mod period - period / 2) / 4. A bfloat16
/// is the upper half of a float32.
fn ramp_tensor(period: i64, shape: &[i64]) -> Option<Tensor> {
    let elements = (0..shape.iter().product()).map(|i: i64| (i % period - period / 2) as f32 / 4.0);
    let data = elements.flat_map(|element| ((element.to_bits() >> 16) as u16).to_le_bytes()).collect();
    tensor(DataType::Bfloat16, shape, data)
}

fn floats(tensor: &Tensor) -> Vec<f32> {
    tensor.data.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

fn bfloat16s(tensor: &Tensor) -> Vec<f32> {
    let halves = tensor.data.chunks_exact(2).map(|bytes| u16::from_le_bytes(bytes.try_into().unwrap()));
    halves.map(|half| f32::from_bits(u32::from(half) << 16)).collect()
}

fn worked_example() -> AttendRequest {
    AttendRequest {
        query: float_tensor(&[1, 1, 1, 4], &[1.0, 0.0, 0.5, 1.0]),
        key: float_tensor(&[1, 1, 3, 4], &[1.0, 0.0, 0.8, 1.0, 0.0, 1.0, 0.2, 0.0, 0.2, 0.2, 0.4, 0.1]),
        value: float_tensor(&[1, 1, 3, 4], &[0.9, 0.1, 0.7, 0.8, 0.1, 0.9, 0.2, 0.1, 0.3, 0.3, 0.5, 0.2]),
        results: Some(ResultSelection { weights: true, ..Default::default() }),
        ..Default::default()
    }
}

/// 32 sequences of 160 tokens, 8 query heads on 2 kv heads, causal: 7.9 MB there, 5.2 MB back.
fn large_example() -> AttendRequest {
    AttendRequest {
        query: ramp_tensor(31, &[32, 8, 160, 64]),
        key: ramp_tensor(29, &[32, 2, 160, 64]),
        value: ramp_tensor(37, &[32, 2, 160, 64]),
        options: Some(AttentionOptions { causal: CausalAlignment::TopLeft.into(), ..Default::default() }),
        ..Default::default()
    }
}

/// A message with the time that its call may take.
fn within<T>(timeout: Duration, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(timeout);
    request
}

/// Prints what a failed call says to people and, in its details, to programs.
fn print_error(name: &str, failure: &Status) {
    println!("{name:<12}{:?}: {}", failure.code(), failure.message());
    if let Some(request) = failure.get_details_bad_request() {
        println!("field       {}", request.field_violations[0].field);
    }
    if let Some(info) = failure.get_details_error_info() {
        println!("value       {}\nlimit       {}", info.metadata["value"], info.metadata["limit"]);
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).or_else(|| std::env::var("ATTEND_ADDRESS").ok());
    let address = address.unwrap_or_else(|| "127.0.0.1:8001".into());
    let channel = Endpoint::new(format!("http://{address}"))?.connect().await?;
    // Without max_decoding_message_size no answer may be longer than 4 MB.
    let mut client = AttentionServiceClient::new(channel.clone()).max_decoding_message_size(usize::MAX);
    let patience = Duration::from_secs(30);

    let health = HealthClient::new(channel).check(within(patience, HealthCheckRequest::default())).await?.into_inner();
    println!("health      {}", health.status().as_str_name());

    let answer = client.attend(within(patience, worked_example())).await?.into_inner();
    println!("weights     {:.4?}", floats(&answer.weights.unwrap_or_default()));
    println!("output      {:.4?}", floats(&answer.output.unwrap_or_default()));

    let answer = client.attend(within(patience, large_example())).await?.into_inner();
    let output = answer.output.unwrap_or_default();
    let elements = bfloat16s(&output);
    let sum: f64 = elements.iter().map(|element| f64::from(element.abs())).sum();
    println!("large shape {:?}", output.shape);
    println!("large mean  {:.6}", sum / elements.len() as f64);
    println!("large last  {:.4?}", &elements[elements.len() - 4..]);

    let mut wrong = worked_example();
    wrong.options = Some(AttentionOptions { key_lengths: vec![4], ..Default::default() }); // there are 3 keys
    if let Err(failure) = client.attend(within(patience, wrong)).await {
        print_error("error", &failure);
    }
    if let Err(failure) = client.attend(within(Duration::from_millis(1), large_example())).await {
        print_error("deadline", &failure);
    }
    Ok(())
}
