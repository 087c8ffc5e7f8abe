"""The configuration keys of TLS: private keys, trust, protocols and cipher suites of a listener.

This module declares names, types, defaults and bounds, as in Apache Kafka 4.3. ``config.tls``
decides what they mean for a listener. TLS keys that have no effect here are in ``accepted_keys``. A
value is checked only by the listeners that use it.
"""

from log_service.config.definition import PER_BROKER, ConfigType, Trait, no_empty_item, one_of
from log_service.config.definition import declared as _key

PASSWORD, STRING = ConfigType.PASSWORD, ConfigType.STRING
STORE = Trait.STORE | Trait.LISTENER | Trait.ACCESS

TLS_KEYS = (
    _key("ssl.keystore.type", STRING, "JKS", "The format of the key store: JKS, PKCS12 or PEM.",
         "as in Java; a store in PKCS12 is recognized, too", update_mode=PER_BROKER, traits=STORE),
    _key("ssl.keystore.location", STRING, None, "The file with the private key and its certificate chain.",
         "none; a listener with TLS must set it", update_mode=PER_BROKER, traits=STORE),
    _key("ssl.keystore.password", PASSWORD, None, "The password of a key store in JKS or PKCS12. A store in PEM has none.", "none",
         update_mode=PER_BROKER, traits=STORE),
    _key("ssl.keystore.key", PASSWORD, None, "The private key as PEM text, with ssl.keystore.type=PEM.",
         "the file of ssl.keystore.location is read", update_mode=PER_BROKER, traits=STORE),
    _key("ssl.keystore.certificate.chain", PASSWORD, None, "The certificate of the private key and the certificates of its "
         "authorities, as PEM text.", "the file of ssl.keystore.location is read", update_mode=PER_BROKER, traits=STORE),
    _key("ssl.key.password", PASSWORD, None, "The password of the private key, if it differs from that of the key store.",
         "the password of the key store", update_mode=PER_BROKER, traits=STORE),
    _key("ssl.truststore.type", STRING, "JKS", "The format of the trust store: JKS, PKCS12 or PEM.",
         "as in Java; a store in PKCS12 is recognized, too", update_mode=PER_BROKER, traits=STORE),
    _key("ssl.truststore.location", STRING, None, "The file with the authorities whose certificates are trusted.",
         "for outgoing connections the system's authorities; a listener that asks for certificates must set it", update_mode=PER_BROKER,
         traits=STORE),
    _key("ssl.truststore.password", PASSWORD, None, "The password of a trust store in JKS or PKCS12.", "none", update_mode=PER_BROKER,
         traits=STORE),
    _key("ssl.truststore.certificates", PASSWORD, None, "The trusted authorities as PEM text, with ssl.truststore.type=PEM.",
         "the file of ssl.truststore.location is read", update_mode=PER_BROKER, traits=STORE),
    _key("ssl.enabled.protocols", ConfigType.LIST, "TLSv1.2,TLSv1.3", "The versions of TLS that are allowed.",
         "older versions are not secure", validator=no_empty_item, update_mode=PER_BROKER, traits=Trait.LISTENER | Trait.FILE_ALONE),
    _key("ssl.cipher.suites", ConfigType.LIST, "", "The cipher suites that are allowed, by their names in Java. The list has all "
         "suites of TLS 1.3 or none.", "OpenSSL's own choice", validator=no_empty_item, update_mode=PER_BROKER,
         traits=Trait.LISTENER | Trait.FILE_ALONE),
    _key("ssl.client.auth", STRING, "none", "Whether clients must send a certificate: none, requested or required. For a listener with "
         "SASL only the key with the listener's prefix counts.", "clients are anonymous",
         validator=one_of("required", "requested", "none"), update_mode=PER_BROKER,
         traits=Trait.ACCESS | Trait.LISTENER | Trait.FILE_ALONE),
    _key("ssl.endpoint.identification.algorithm", STRING, "https", "How the certificate of a node that this one connects to is "
         "checked. https compares the host with the names in the certificate. An empty text does not compare.",
         "the certificate of another host proves nothing about this host", update_mode=PER_BROKER,
         traits=Trait.ACCESS | Trait.LISTENER | Trait.FILE_ALONE),
    _key("ssl.principal.mapping.rules", STRING, "DEFAULT", "How the name in a client's certificate becomes the name of a user: "
         "DEFAULT, or RULE:pattern/replacement/ with an optional L or U behind it, separated by commas.", "the name is used unchanged",
         traits=Trait.ACCESS | Trait.LISTENER | Trait.FILE_ALONE),
    _key("ssl.allow.dn.changes", ConfigType.BOOLEAN, "false", "Whether a listener's new certificate may have another distinguished "
         "name than the old one while the node runs.", "clients that check the name would fail", traits=Trait.ACCESS | Trait.LISTENER),
    _key("ssl.allow.san.changes", ConfigType.BOOLEAN, "false", "Whether a listener's new certificate may be for fewer hosts than the "
         "old one while the node runs.", "clients that connect to a missing host would fail", traits=Trait.ACCESS | Trait.LISTENER),
)  # fmt: skip
