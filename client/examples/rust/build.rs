fn main() -> std::io::Result<()> {
    tonic_prost_build::configure().build_server(false).compile_protos(&["proto/attend/v1/attention.proto"], &["proto"])
}
