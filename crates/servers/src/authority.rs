//! An authority of the test's own, which signs certificates for servers on this machine.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// An authority.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// What whoever trusts it is given, as PEM.
    pub pem: String,
}

/// A certificate and its key, as PEM.
#[derive(Debug)]
pub struct Certified {
    /// The certificate.
    pub cert: String,
    /// The key.
    pub key: String,
}

impl Authority {
    /// A new one, whom nobody trusts yet.
    pub fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Authority { issuer: Issuer::new(params, key), pem }
    }

    /// A certificate for names and addresses.
    pub fn certify(&self, names: &[&str]) -> Certified {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(names).expect("names");
        let cert = params.signed_by(&key, &self.issuer).expect("a certificate").pem();
        Certified { cert, key: key.serialize_pem() }
    }

    /// A certificate that signed itself, such as `openssl req -x509` makes; of an authority or not.
    pub fn alone(names: &[&str], authority: bool) -> Certified {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(names).expect("names");
        if authority {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        let cert = params.self_signed(&key).expect("a certificate").pem();
        Certified { cert, key: key.serialize_pem() }
    }
}
