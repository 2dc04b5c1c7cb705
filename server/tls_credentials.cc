#include "server/tls_credentials.h"

#include <memory>
#include <utility>

#include "grpc/grpc.h"

namespace attend::server {
namespace {

grpc_ssl_client_certificate_request_type RequestType(const CertificateSet& set, bool required) {
  if (!set.client_ca) return GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE;
  return required ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                  : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY;
}

}  // namespace

TlsCredentials::TlsCredentials(CertificateSet set, bool requires_client_certificate)
    : news_(std::move(set)),
      credentials_(grpc_ssl_server_credentials_create_with_options(
          grpc_ssl_server_credentials_create_options_using_config_fetcher(
              RequestType(*news_, requires_client_certificate), &Fetch, this))) {}

TlsCredentials::~TlsCredentials() { grpc_server_credentials_release(credentials_); }

void TlsCredentials::Exchange(CertificateSet set) {
  std::lock_guard<std::mutex> lock(mutex_);
  news_ = std::move(set);
}

void TlsCredentials::SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>& /*processor*/) {}

int TlsCredentials::AddPortToServer(const std::string& address, grpc_server* server) {
  return grpc_server_add_http2_port(server, address.c_str(), credentials_);
}

grpc_ssl_certificate_config_reload_status TlsCredentials::Fetch(void* self,
                                                                grpc_ssl_server_certificate_config** config) {
  auto& credentials = *static_cast<TlsCredentials*>(self);
  std::lock_guard<std::mutex> lock(credentials.mutex_);
  if (!credentials.news_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
  const CertificateSet set = *std::exchange(credentials.news_, std::nullopt);
  const grpc_ssl_pem_key_cert_pair pair{.private_key = set.key.c_str(), .cert_chain = set.certificate.c_str()};
  // gRPC aborts where there are no authorities, though it may have been told to ask for no certificate: any will do
  // then.
  const std::string& authorities = set.client_ca ? *set.client_ca : set.certificate;
  *config = grpc_ssl_server_certificate_config_create(authorities.c_str(), &pair, 1);
  return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
}

}  // namespace attend::server
