// Attention from TypeScript: health, a call small enough to check by hand, a large one in bfloat16, an error and a
// deadline.
//
// usage: npm start [HOST:PORT], by default ATTEND_ADDRESS, else 127.0.0.1:8001
import * as path from 'node:path';
import * as grpc from '@grpc/grpc-js';
import * as loader from '@grpc/proto-loader';
import type { ProtoGrpcType as AttentionTypes } from './generated/attention';
import type { AttendRequest } from './generated/attend/v1/AttendRequest';
import type { AttendResponse__Output as AttendResponse } from './generated/attend/v1/AttendResponse';
import type { Tensor } from './generated/attend/v1/Tensor';
import type { BadRequest__Output as BadRequest } from './generated/google/rpc/BadRequest';
import type { ErrorInfo__Output as ErrorInfo } from './generated/google/rpc/ErrorInfo';
import type { HealthCheckResponse__Output as HealthCheckResponse } from './generated/grpc/health/v1/HealthCheckResponse';
import type { ProtoGrpcType as HealthTypes } from './generated/health';
import type { ProtoGrpcType as StatusTypes } from './generated/status';

const files = ['attend/v1/attention.proto', 'grpc/health/v1/health.proto', 'google/rpc/status.proto',
  'google/rpc/error_details.proto'];
// The same options as those of "generate" in package.json; json opens the messages inside of google.rpc.Status.
const types = grpc.loadPackageDefinition(loader.loadSync(files, {
  includeDirs: [path.resolve(__dirname, '../proto')], longs: Number, enums: String, defaults: true, json: true,
})) as unknown as AttentionTypes & HealthTypes & StatusTypes;

const address = process.argv[2] ?? process.env.ATTEND_ADDRESS ?? '127.0.0.1:8001';
// Without this no answer may be longer than 4 MB.
const options = { 'grpc.max_receive_message_length': -1 };
const client = new types.attend.v1.AttentionService(address, grpc.credentials.createInsecure(), options);
const health = new types.grpc.health.v1.Health(address, grpc.credentials.createInsecure());

function within(milliseconds: number): grpc.CallOptions {
  return { deadline: Date.now() + milliseconds };
}

function attend(request: AttendRequest, milliseconds = 30_000): Promise<AttendResponse> {
  return new Promise((resolve, reject) => client.attend(request, within(milliseconds),
    (error, answer) => (answer ? resolve(answer) : reject(error))));
}

function checkHealth(): Promise<HealthCheckResponse> {
  return new Promise((resolve, reject) => health.check({}, within(30_000),
    (error, answer) => (answer ? resolve(answer) : reject(error))));
}

function floatTensor(shape: number[], elements: number[]): Tensor {
  const data = Buffer.alloc(4 * elements.length);
  elements.forEach((element, i) => data.writeFloatLE(element, 4 * i));
  return { dataType: 'DATA_TYPE_FLOAT32', shape, data };
}

function floats(data: Buffer): number[] {
  return Array.from({ length: data.length / 4 }, (_, i) => data.readFloatLE(4 * i));
}

// A bfloat16 tensor of quarters that rise and fall back: element i is (i mod period - period / 2) / 4. A bfloat16 is
// the upper half of a float32.
function rampTensor(period: number, shape: number[]): Tensor {
  const count = shape.reduce((product, length) => product * length);
  const data = Buffer.alloc(2 * count);
  const float = new DataView(new ArrayBuffer(4));
  for (let i = 0; i < count; ++i) {
    float.setFloat32(0, (i % period - Math.floor(period / 2)) / 4);
    data.writeUInt16LE(float.getUint16(0), 2 * i);
  }
  return { dataType: 'DATA_TYPE_BFLOAT16', shape, data };
}

function bfloat16s(data: Buffer): number[] {
  const float = new DataView(new ArrayBuffer(4));
  return Array.from({ length: data.length / 2 }, (_, i) => {
    float.setUint16(0, data.readUInt16LE(2 * i));
    return float.getFloat32(0);
  });
}

const workedExample: AttendRequest = {
  query: floatTensor([1, 1, 1, 4], [1, 0, 0.5, 1]),
  key: floatTensor([1, 1, 3, 4], [1, 0, 0.8, 1, 0, 1, 0.2, 0, 0.2, 0.2, 0.4, 0.1]),
  value: floatTensor([1, 1, 3, 4], [0.9, 0.1, 0.7, 0.8, 0.1, 0.9, 0.2, 0.1, 0.3, 0.3, 0.5, 0.2]),
  results: { weights: true },
};

// 32 sequences of 160 tokens, 8 query heads on 2 kv heads, causal: 7.9 MB there, 5.2 MB back.
const largeExample: AttendRequest = {
  query: rampTensor(31, [32, 8, 160, 64]),
  key: rampTensor(29, [32, 2, 160, 64]),
  value: rampTensor(37, [32, 2, 160, 64]),
  options: { causal: 'CAUSAL_ALIGNMENT_TOP_LEFT' },
};

const text = (elements: number[]): string => elements.map((element) => element.toFixed(4)).join(' ');

// Prints what a failed call says to people and, in its details, to programs.
function printError(name: string, error: grpc.ServiceError): void {
  console.log(`${name.padEnd(12)}${grpc.status[error.code]}: ${error.details}`);
  for (const status of error.metadata.get('grpc-status-details-bin')) {
    for (const detail of types.google.rpc.Status.deserialize(status as Buffer).details) {
      const type = '@type' in detail ? detail['@type'] : detail.type_url;
      if (type.endsWith('google.rpc.BadRequest')) {
        console.log(`field       ${(detail as unknown as BadRequest).fieldViolations[0].field}`);
      } else if (type.endsWith('google.rpc.ErrorInfo')) {
        const { value, limit } = (detail as unknown as ErrorInfo).metadata;
        console.log(`value       ${value}\nlimit       ${limit}`);
      }
    }
  }
}

async function main(): Promise<void> {
  console.log(`health      ${(await checkHealth()).status}`);

  const answer = await attend(workedExample);
  console.log(`weights     ${text(floats(answer.weights!.data))}`);
  console.log(`output      ${text(floats(answer.output!.data))}`);

  const { output } = await attend(largeExample);
  const elements = bfloat16s(output!.data);
  console.log(`large shape ${output!.shape.join(' ')}`);
  console.log(`large mean  ${(elements.reduce((sum, x) => sum + Math.abs(x), 0) / elements.length).toFixed(6)}`);
  console.log(`large last  ${text(elements.slice(-4))}`);

  await attend({ ...workedExample, options: { keyLengths: [4] } }) // there are 3 keys
    .catch((error) => printError('error', error));
  await attend(largeExample, 1).catch((error) => printError('deadline', error));
}

main().catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
