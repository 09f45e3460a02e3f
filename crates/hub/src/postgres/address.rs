//! Where PostgreSQL is, and whether the way to it is encrypted: what a URL says.
//!
//! An encrypted connection is a verified one: a certificate that anybody may have made keeps nobody
//! out. So `sslmode=require` asks for no less than `verify-full`.

use crate::error::{Error, Result};
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::path::Path;
use std::sync::Arc;
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

/// How to connect.
pub struct Address {
    /// Server, user and database.
    pub config: Config,
    /// What encrypts, if anything does.
    pub tls: Option<MakeRustlsConnect>,
}

impl Address {
    /// Reads a URL. Its `sslmode` is `disable`, which it is if it says nothing, `require`, or
    /// `verify-full`; `sslrootcert` is a PEM file of authorities, those of the system if absent.
    pub fn parse(url: &str) -> Result<Address> {
        let bad = |what: String| Error::Setting {
            what,
            hint: "Write postgres://USER@HOST/DATABASE, and ?sslmode=require to encrypt",
        };
        let (start, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut encrypted, mut authorities, mut others) = (false, None, Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", "disable")) => encrypted = false,
                Some(("sslmode", "require" | "verify-full")) => encrypted = true,
                Some(("sslmode", mode)) => return Err(bad(format!("sslmode={mode} is unknown"))),
                Some(("sslrootcert", path)) => authorities = Some(path),
                _ => others.push(pair),
            }
        }
        let plain = format!("{start}?{}", others.join("&"));
        // The URL itself, which may hold a password, is not repeated.
        let parsed = plain.trim_end_matches('?').parse::<Config>();
        let mut config =
            parsed.map_err(|e| bad(format!("the URL of PostgreSQL is malformed: {e}")))?;
        config.ssl_mode(if encrypted { SslMode::Require } else { SslMode::Disable });
        let tls = encrypted.then(|| trusting(authorities.map(Path::new))).transpose()?;
        Ok(Address { config, tls: tls.map(MakeRustlsConnect::new) })
    }
}

/// Trusts authorities of a file, or those of the system.
fn trusting(authorities: Option<&Path>) -> Result<ClientConfig> {
    let bad = |e: &dyn std::fmt::Display| Error::Setting {
        what: format!("authorities for PostgreSQL: {e}"),
        hint: "Let sslrootcert name a PEM file of certificates",
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|e| bad(&e))?;
    let Some(path) = authorities else {
        let verifier = rustls_platform_verifier::Verifier::new(provider).map_err(|e| bad(&e))?;
        let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
        return Ok(builder.with_no_client_auth());
    };
    let mut roots = rustls::RootCertStore::empty();
    for cert in CertificateDer::pem_file_iter(path).map_err(|e| bad(&e))? {
        roots.add(cert.map_err(|e| bad(&e))?).map_err(|e| bad(&e))?;
    }
    if roots.is_empty() {
        return Err(bad(&format!("{} has none", path.display())));
    }
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_whether_the_way_is_encrypted() {
        let mode = |url| Address::parse(url).unwrap().config.get_ssl_mode();
        assert_eq!(mode("postgres://hub@h/db"), SslMode::Disable);
        assert_eq!(mode("postgres://hub@h/db?sslmode=disable"), SslMode::Disable);
        let url = "postgres://hub@h/db?connect_timeout=3&sslmode=require";
        assert_eq!(mode(url), SslMode::Require);
        assert!(Address::parse(url).unwrap().tls.is_some());
        for url in [
            "postgres://hub@h/db?sslmode=prefer",
            "postgres://hub:secret@h:port/db",
            "postgres://hub@h/db?sslmode=require&sslrootcert=/nowhere.pem",
        ] {
            let told = Address::parse(url).err().unwrap().to_string();
            assert!(!told.contains("secret") && told.contains(". "), "{told}");
        }
    }
}
