"""The settings of a broker or controller that concern security, as a table (see config_def.parse_table).

Names, types, defaults and allowed values are those of AbstractKafkaConfig.CONFIG_DEF, Kafka 4.3.1; the sentences are our own.
A type ends in its update mode: ro after a restart, pb on one broker at run time, cw on the whole cluster at run time.
"""

from typing import Final

SECURITY_TABLE: Final = """
authorizer.class.name | STRING/ro |  | LOW | non-null string | 
connection.failed.authentication.delay.ms | INT/ro | 100 | LOW | [0,...] | 
connections.max.reauth.ms | LONG/ro | 0 | MEDIUM |  | 
delegation.token.expiry.check.interval.ms | LONG/ro | 3600000 | LOW | [1,...] | 
delegation.token.expiry.time.ms | LONG/ro | 86400000 | MEDIUM | [1,...] | 
delegation.token.max.lifetime.ms | LONG/ro | 604800000 | MEDIUM | [1,...] | 
delegation.token.secret.key | PASSWORD/ro | null | MEDIUM |  | 
principal.builder.class | CLASS/pb | org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder | MEDIUM |  | 
sasl.client.callback.handler.class | CLASS/ro | null | MEDIUM |  | 
sasl.enabled.mechanisms | LIST/pb | GSSAPI | MEDIUM | distinct | 
sasl.jaas.config | PASSWORD/pb | null | MEDIUM |  | 
sasl.kerberos.kinit.cmd | STRING/pb | /usr/bin/kinit | MEDIUM |  | 
sasl.kerberos.min.time.before.relogin | LONG/pb | 60000 | MEDIUM |  | 
sasl.kerberos.principal.to.local.rules | LIST/pb | DEFAULT | MEDIUM | distinct | 
sasl.kerberos.service.name | STRING/pb | null | MEDIUM |  | 
sasl.kerberos.ticket.renew.jitter | DOUBLE/pb | 0.05 | MEDIUM |  | 
sasl.kerberos.ticket.renew.window.factor | DOUBLE/pb | 0.8 | MEDIUM |  | 
sasl.login.callback.handler.class | CLASS/ro | null | MEDIUM |  | 
sasl.login.class | CLASS/ro | null | MEDIUM |  | 
sasl.login.connect.timeout.ms | INT/ro | null | LOW |  | 
sasl.login.read.timeout.ms | INT/ro | null | LOW |  | 
sasl.login.refresh.buffer.seconds | SHORT/pb | 300 | MEDIUM |  | 
sasl.login.refresh.min.period.seconds | SHORT/pb | 60 | MEDIUM |  | 
sasl.login.refresh.window.factor | DOUBLE/pb | 0.8 | MEDIUM |  | 
sasl.login.refresh.window.jitter | DOUBLE/pb | 0.05 | MEDIUM |  | 
sasl.login.retry.backoff.max.ms | LONG/ro | 10000 | LOW |  | 
sasl.login.retry.backoff.ms | LONG/ro | 100 | LOW |  | 
sasl.mechanism.controller.protocol | STRING/ro | GSSAPI | HIGH |  | 
sasl.mechanism.inter.broker.protocol | STRING/pb | GSSAPI | MEDIUM |  | 
sasl.oauthbearer.assertion.algorithm | STRING/ro | RS256 | MEDIUM | (case insensitive) [ES256, RS256] | 
sasl.oauthbearer.assertion.claim.aud | STRING/ro | null | MEDIUM |  | 
sasl.oauthbearer.assertion.claim.exp.seconds | INT/ro | 300 | LOW | [0,...,86400] | 
sasl.oauthbearer.assertion.claim.iss | STRING/ro | null | MEDIUM |  | 
sasl.oauthbearer.assertion.claim.jti.include | BOOLEAN/ro | false | MEDIUM |  | 
sasl.oauthbearer.assertion.claim.nbf.seconds | INT/ro | 60 | LOW | [0,...,3600] | 
sasl.oauthbearer.assertion.claim.sub | STRING/ro | null | MEDIUM |  | 
sasl.oauthbearer.assertion.file | STRING/ro | null | MEDIUM |  | 
sasl.oauthbearer.assertion.private.key.file | STRING/ro | null | MEDIUM |  | 
sasl.oauthbearer.assertion.private.key.passphrase | PASSWORD/ro | null | MEDIUM |  | 
sasl.oauthbearer.assertion.template.file | STRING/ro | null | MEDIUM |  | 
sasl.oauthbearer.client.credentials.client.id | STRING/ro | null | MEDIUM |  | 
sasl.oauthbearer.client.credentials.client.secret | PASSWORD/ro | null | MEDIUM |  | 
sasl.oauthbearer.clock.skew.seconds | INT/ro | 30 | LOW |  | 
sasl.oauthbearer.expected.audience | LIST/ro |  | HIGH | distinct | 
sasl.oauthbearer.expected.issuer | STRING/ro | null | HIGH |  | 
sasl.oauthbearer.jwks.endpoint.refresh.ms | LONG/ro | 3600000 | LOW |  | 
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms | LONG/ro | 10000 | LOW |  | 
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms | LONG/ro | 100 | LOW |  | 
sasl.oauthbearer.jwks.endpoint.url | STRING/ro | null | MEDIUM |  | 
sasl.oauthbearer.jwt.retriever.class | CLASS/ro | org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever | MEDIUM |  | 
sasl.oauthbearer.jwt.validator.class | CLASS/ro | org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator | MEDIUM |  | 
sasl.oauthbearer.scope | STRING/ro | null | MEDIUM |  | 
sasl.oauthbearer.scope.claim.name | STRING/ro | scope | LOW |  | 
sasl.oauthbearer.sub.claim.name | STRING/ro | sub | LOW |  | 
sasl.oauthbearer.token.endpoint.url | STRING/ro | null | MEDIUM |  | 
sasl.server.callback.handler.class | CLASS/ro | null | MEDIUM |  | 
sasl.server.max.receive.size | INT/ro | 524288 | MEDIUM |  | 
security.inter.broker.protocol | STRING/ro | PLAINTEXT | MEDIUM | [PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL] | 
security.providers | STRING/ro | null | LOW |  | 
ssl.allow.dn.changes | BOOLEAN/ro | false | LOW |  | 
ssl.allow.san.changes | BOOLEAN/ro | false | LOW |  | 
ssl.cipher.suites | LIST/pb |  | MEDIUM | distinct | 
ssl.client.auth | STRING/pb | none | MEDIUM | [required, requested, none] | 
ssl.enabled.protocols | LIST/pb | TLSv1.2,TLSv1.3 | MEDIUM | distinct | 
ssl.endpoint.identification.algorithm | STRING/pb | https | LOW |  | 
ssl.engine.factory.class | CLASS/pb | null | LOW |  | 
ssl.key.password | PASSWORD/pb | null | MEDIUM |  | 
ssl.keymanager.algorithm | STRING/pb | SunX509 | MEDIUM |  | 
ssl.keystore.certificate.chain | PASSWORD/pb | null | MEDIUM |  | 
ssl.keystore.key | PASSWORD/pb | null | MEDIUM |  | 
ssl.keystore.location | STRING/pb | null | MEDIUM |  | 
ssl.keystore.password | PASSWORD/pb | null | MEDIUM |  | 
ssl.keystore.type | STRING/pb | JKS | MEDIUM |  | 
ssl.principal.mapping.rules | STRING/ro | DEFAULT | LOW |  | 
ssl.protocol | STRING/pb | TLSv1.3 | MEDIUM |  | 
ssl.provider | STRING/pb | null | MEDIUM |  | 
ssl.secure.random.implementation | STRING/pb | null | LOW |  | 
ssl.trustmanager.algorithm | STRING/pb | PKIX | MEDIUM |  | 
ssl.truststore.certificates | PASSWORD/pb | null | MEDIUM |  | 
ssl.truststore.location | STRING/pb | null | MEDIUM |  | 
ssl.truststore.password | PASSWORD/pb | null | MEDIUM |  | 
ssl.truststore.type | STRING/pb | JKS | MEDIUM |  | 
"""
