#pragma once
// Certificates for tests, and a TLS server in front of a scripted daemon.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <list>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "wire/scripted_daemon.hpp"

namespace combu::kubernetes {

template <auto free>
struct Freed {
  template <class T>
  void operator()(T* object) const {
    free(object);
  }
};
using X509Pointer = std::unique_ptr<X509, Freed<&X509_free>>;
using KeyPointer = std::unique_ptr<EVP_PKEY, Freed<&EVP_PKEY_free>>;
using BioPointer = std::unique_ptr<BIO, Freed<&BIO_free_all>>;

inline std::string text_of(const BioPointer& bio) {
  char* bytes = nullptr;
  const auto size = BIO_get_mem_data(bio.get(), &bytes);
  return {bytes, static_cast<std::size_t>(size)};
}

inline std::string common_name(const X509* certificate) {
  std::array<char, 100> name{};
  if (certificate != nullptr)
    X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name.data(), name.size());
  return name.data();
}

// A certificate and its key, in PEM form.
struct Certified {
  std::string certificate;
  std::string key;
  std::string encrypted_key;  // `key`, encrypted with a password
};

// A certificate authority.
class Authority {
 public:
  Authority() : certificate_(make("combu test authority", key_.get(), nullptr, "critical,CA:TRUE", "")) {}

  [[nodiscard]] const X509* x509() const { return certificate_.get(); }
  [[nodiscard]] std::string pem() const { return pem_of(certificate_.get()); }
  // Issues a certificate. `names`: subjectAltName, such as "IP:127.0.0.1"; empty: none.
  [[nodiscard]] Certified issue(const std::string& name, const std::string& names = "") const {
    const KeyPointer key(EVP_EC_gen("P-256"));
    const X509Pointer certificate = make(name, key.get(), certificate_.get(), "critical,CA:FALSE", names);
    return {.certificate = pem_of(certificate.get()),
            .key = pem_of(key.get(), nullptr),
            .encrypted_key = pem_of(key.get(), EVP_aes_256_cbc())};
  }

 private:
  [[nodiscard]] X509Pointer make(const std::string& name, EVP_PKEY* key, X509* issuer,
                                 const char* constraints, const std::string& names) const {
    static long serial = 0;
    X509Pointer certificate(X509_new());
    X509_set_version(certificate.get(), X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
    X509_set_pubkey(certificate.get(), key);
    X509_NAME* const subject = X509_get_subject_name(certificate.get());
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    X509_set_issuer_name(certificate.get(), issuer == nullptr ? subject : X509_get_subject_name(issuer));
    add(certificate.get(), issuer, NID_basic_constraints, constraints);
    if (!names.empty()) add(certificate.get(), issuer, NID_subject_alt_name, names);
    if (X509_sign(certificate.get(), key_.get(), EVP_sha256()) == 0) throw std::runtime_error("X509_sign");
    return certificate;
  }

  static void add(X509* certificate, X509* issuer, int which, const std::string& value) {
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer == nullptr ? certificate : issuer, certificate, nullptr, nullptr, 0);
    const std::unique_ptr<X509_EXTENSION, Freed<&X509_EXTENSION_free>> extension(
        X509V3_EXT_conf_nid(nullptr, &context, which, value.c_str()));
    if (!extension || X509_add_ext(certificate, extension.get(), -1) == 0)
      throw std::runtime_error("X509_add_ext");
  }

  static std::string pem_of(X509* certificate) {
    const BioPointer bio(BIO_new(BIO_s_mem()));
    PEM_write_bio_X509(bio.get(), certificate);
    return text_of(bio);
  }

  static std::string pem_of(EVP_PKEY* key, const EVP_CIPHER* cipher) {
    const BioPointer bio(BIO_new(BIO_s_mem()));
    const std::string_view password = cipher == nullptr ? "" : "password";
    PEM_write_bio_PKCS8PrivateKey(bio.get(), key, cipher, password.data(), static_cast<int>(password.size()),
                                  nullptr, nullptr);
    return text_of(bio);
  }

  KeyPointer key_{EVP_EC_gen("P-256")};
  X509Pointer certificate_;
};

// Accepts TLS connections, and connects each to the scripted daemon `behind`. Asks clients for certificates
// of `authority`, but does not require them.
class TlsServer {
 public:
  TlsServer(const wire::ScriptedDaemon& behind, const Certified& own, const Authority& authority)
      : behind_port_(std::stoi(behind.address().substr(behind.address().rfind(':') + 1))),
        context_(SSL_CTX_new(TLS_server_method())) {
    const BioPointer certificate(BIO_new_mem_buf(own.certificate.data(), -1));
    const BioPointer key(BIO_new_mem_buf(own.key.data(), -1));
    const X509Pointer x509(PEM_read_bio_X509(certificate.get(), nullptr, nullptr, nullptr));
    const KeyPointer private_key(PEM_read_bio_PrivateKey(key.get(), nullptr, nullptr, nullptr));
    const std::string pem = authority.pem();
    const BioPointer authority_bio(BIO_new_mem_buf(pem.data(), -1));
    const X509Pointer authority_x509(PEM_read_bio_X509(authority_bio.get(), nullptr, nullptr, nullptr));
    if (SSL_CTX_use_certificate(context_.get(), x509.get()) != 1 ||
        SSL_CTX_use_PrivateKey(context_.get(), private_key.get()) != 1 ||
        X509_STORE_add_cert(SSL_CTX_get_cert_store(context_.get()), authority_x509.get()) != 1)
      throw std::runtime_error("certificates");
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    SSL_CTX_set_session_cache_mode(context_.get(), SSL_SESS_CACHE_OFF);
    listen();
    if (::pipe(wake_.data()) != 0) throw std::runtime_error("pipe");
    acceptor_ = std::thread([this] { accept_all(); });
  }
  ~TlsServer() {
    ::close(wake_[1]);  // every poll() sees the end of the pipe
    acceptor_.join();
    for (std::thread& connection : connections_) connection.join();
    ::close(listener_);
    ::close(wake_[0]);
  }
  TlsServer(const TlsServer&) = delete;
  TlsServer& operator=(const TlsServer&) = delete;

  [[nodiscard]] int port() const { return port_; }
  // The common name of each client's certificate, and the name that the client has requested (SNI), for each
  // connection.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> clients() const {
    const std::scoped_lock lock(mutex_);
    return clients_;
  }

 private:
  static sockaddr_in loopback(int port) {
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    where.sin_port = htons(static_cast<in_port_t>(port));
    return where;
  }

  void listen() {
    sockaddr_in where = loopback(0);
    socklen_t size = sizeof where;
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::bind(listener_, reinterpret_cast<const sockaddr*>(&where), size) != 0 ||
        ::listen(listener_, 16) != 0)
      throw std::runtime_error("listen");
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&where), &size);
    port_ = ntohs(where.sin_port);
  }

  // Waits until a descriptor is readable. Returns false if the server is ending.
  [[nodiscard]] bool wait(std::vector<pollfd>& wanted) const {
    wanted.push_back({wake_[0], POLLIN, 0});
    while (::poll(wanted.data(), wanted.size(), -1) < 0) {
    }
    return wanted.back().revents == 0;
  }

  void accept_all() {
    while (true) {
      std::vector<pollfd> wanted{{listener_, POLLIN, 0}};
      if (!wait(wanted)) return;
      const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (socket < 0) continue;
      connections_.emplace_back([this, socket] {
        serve(socket);
        ::close(socket);
      });
    }
  }

  void serve(int socket) {
    // OpenSSL writes to a closed connection without MSG_NOSIGNAL. Only this thread ignores the signal.
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    const std::unique_ptr<SSL, Freed<&SSL_free>> tls(SSL_new(context_.get()));
    SSL_set_fd(tls.get(), socket);
    if (SSL_accept(tls.get()) != 1) return;
    const X509Pointer client(SSL_get1_peer_certificate(tls.get()));
    const char* const name = SSL_get_servername(tls.get(), TLSEXT_NAMETYPE_host_name);
    {
      const std::scoped_lock lock(mutex_);
      clients_.emplace_back(common_name(client.get()), name == nullptr ? "" : name);
    }
    const int behind = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in where = loopback(behind_port_);
    if (::connect(behind, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0)
      relay(tls.get(), socket, behind);
    ::close(behind);
  }

  void relay(SSL* tls, int socket, int behind) const {
    std::array<char, 65536> buffer{};
    while (true) {
      std::vector<pollfd> wanted{{socket, POLLIN, 0}, {behind, POLLIN, 0}};
      if (SSL_pending(tls) == 0 && !wait(wanted)) return;
      if (SSL_pending(tls) > 0 || wanted[0].revents != 0) {
        const int count = SSL_read(tls, buffer.data(), buffer.size());
        if (count <= 0 || !wire::put(behind, {buffer.data(), static_cast<std::size_t>(count)})) return;
      }
      if (wanted[1].revents != 0) {
        const ssize_t count = ::recv(behind, buffer.data(), buffer.size(), 0);
        if (count <= 0 || SSL_write(tls, buffer.data(), static_cast<int>(count)) <= 0) return;
      }
    }
  }

  int behind_port_;
  std::unique_ptr<SSL_CTX, Freed<&SSL_CTX_free>> context_;
  int listener_ = -1;
  int port_ = 0;
  std::array<int, 2> wake_{-1, -1};
  std::thread acceptor_;
  std::list<std::thread> connections_;
  mutable std::mutex mutex_;
  std::vector<std::pair<std::string, std::string>> clients_;
};

}  // namespace combu::kubernetes
